"""A result as the fluid model predicts it: for the page's tests, never for a claim."""

from studies.demonstration.report import (
    Decision,
    Delivery,
    Half,
    Link,
    Node,
    Result,
    Scenario,
    Timeline,
)

STEP_S = 0.25
CAPACITY_BPS = 400e6

# id, source, submitted, bytes, deadline, finish with Weir, finish with plain TCP
TRANSFERS = [
    ("genomes", "hinxton", 0.0, 240e6, 42.0, 18.8, 23.3),
    ("climate", "geneva", 0.5, 220e6, 40.0, 23.1, 19.5),
    ("backup", "geneva", 1.0, 160e6, 45.0, 19.5, 15.0),
    ("beamtime", "hinxton", 3.0, 85e6, 7.5, 6.8, 12.5),
    ("night", "lapalma", 6.0, 90e6, 8.0, 7.3, 16.1),
    ("alert", "lapalma", 9.0, 55e6, 5.0, 4.4, 11.2),
    ("shots", "hinxton", 13.0, 60e6, 6.0, 5.4, 9.6),
]


def result(**changes) -> Result:
    fields = {
        "scenario": scenario(),
        "weir": half(5, 0.93),
        "plain": half(6, 0.98),
        "decisions": decisions(),
        "version": "0.1.0",
        "taken_at": "2026-01-02 03:04 UTC",
        "machine": "2 CPUs, Linux 6.1",
        "notes": ["The emulator was never the limit (busiest thread 31 % busy)."],
    }
    return Result(**(fields | changes))


def scenario() -> Scenario:
    nodes = [
        Node("hinxton", "site", "sequencing"),
        Node("geneva", "site", "archive"),
        Node("lapalma", "site", "telescope"),
        Node("office", "service", "the calendar"),
        Node("campus", "background", "everyone else"),
        Node("paris", "router"),
        Node("milan", "router"),
        Node("bologna", "site", "supercomputer"),
        Node("internet", "background", "everyone else"),
    ]
    ends = [
        ("hinxton", "paris", 9e-3),
        ("geneva", "paris", 1e-3),
        ("lapalma", "paris", 22e-3),
        ("office", "paris", 2e-3),
        ("campus", "paris", 1e-3),
        ("bologna", "milan", 2e-3),
        ("internet", "milan", 5e-3),
    ]
    links = [Link(f"{a}-{b}", (a, b), 10**9, delay) for a, b, delay in ends]
    links.append(Link("paris-milan", ("paris", "milan"), 400_000_000, 6e-3))
    return Scenario(
        name="four sites", seed=1, nodes=nodes, links=links, bottleneck="paris-milan",
        calendar_bps=320_000_000, background_bps=60_000_000,
        background="A steady 60 Mbit/s of UDP", policy="global-ljf", congestion="cubic",
    )  # fmt: skip


def half(column: int, utilisation: float) -> Half:
    deliveries = [
        Delivery(
            id=row[0], bytes=int(row[3]), source=row[1], destination="bologna",
            submitted_s=row[2], deadline_s=row[4], finish_s=row[column], verified=True,
            what="test data",
        )
        for row in TRANSFERS
    ]  # fmt: skip
    samples = int(25 / STEP_S)
    flows = {row[0]: _flat(row[2], row[column], row[3], samples) for row in TRANSFERS}
    use = [utilisation + 0.02 * ((i * 7) % 5 - 2) / 5 for i in range(samples)]
    return Half(deliveries, Timeline(STEP_S, flows, {"paris-milan": use}), utilisation)


def _flat(submitted: float, finish: float, size: float, samples: int) -> list[float]:
    rate = size * 8 / finish
    return [
        rate if submitted <= (i + 0.5) * STEP_S < submitted + finish else 0.0
        for i in range(samples)
    ]


def decisions() -> list[Decision]:
    return [
        Decision(0.0, "genomes", "accepted", rate_bps=320_000_000, deadline_s=42.0),
        Decision(0.5, "genomes", "rate", rate_bps=47_000_000),
        Decision(
            13.0, "shots", "refused", deadline_s=3.0, earliest_deadline_s=6.0, link="paris-milan",
            detail="link paris-milan has 80 Mbit/s to give and 160 Mbit/s is needed",
        ),
        Decision(13.1, "shots", "accepted", rate_bps=89_000_000, deadline_s=6.0),
    ]  # fmt: skip
