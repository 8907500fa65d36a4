"""What is saved of the promises when a link of several shrinks or fails, against what could be.

    python tests/schedule/campaign_cuts.py --seeds 40

Transfers of random ends, sizes, deadlines and weights are admitted on a small network, to be sent
over all its paths; then a random link is cut to a part of itself. What could be saved is told by an
integer program that knows nothing of the calendar's plans (`studies.rig.offline_bound`): of those
admitted, the most weight that any plan could have there in time over the network as it is then.
Whoever has nothing reserved on the link is promised to keep its place, whatever others are worth.
So there are two such bounds: with these kept, and with whoever is best left out.
"""

import argparse
import json
import random
import statistics
from dataclasses import dataclass
from itertools import pairwise

from studies.rig.offline_bound import Request, offline_bound
from weir import Bytes, Rate, Time
from weir._core import Calendar

EPOCH = Time("3 min")
MBIT = 1_000_000
# What the solver takes for equal, against weights that are whole.
TOLERANCE = 0.01


@dataclass(frozen=True)
class Asked:
    """A transfer that was admitted at time zero."""

    source: str
    destination: str
    size_bytes: int
    deadline_s: float
    weight: int


@dataclass(frozen=True)
class Cut:
    """What came of a cut, in weights.

    Attributes:
        admitted: of all transfers before it.
        untouched: of those with nothing reserved on the link.
        untouched_bytes: what these have to move, in bytes.
        kept: whether all of the latter keep their promise.
        saved: of all whose promises hold after it.
        most: the most that any plan could save that keeps the untouched.
        most_of_all: the most that any plan could save.
        solved: whether both are optima, and not only bounds.
    """

    admitted: int
    untouched: int
    untouched_bytes: int
    kept: bool
    saved: int
    most: float
    most_of_all: float
    solved: bool


def network(links):
    """Links (from, to, Mbit/s), each way the same."""
    both = [(a, b, rate) for x, y, rate in links for a, b in ((x, y), (y, x))]
    return {
        "nodes": sorted({node for a, b, _ in both for node in (a, b)}),
        "links": [
            {"name": f"{a}-{b}", "from": a, "to": b, "capacity_bps": rate * MBIT}
            for a, b, rate in both
        ],
    }


def ring(chance, nodes=4):
    """A ring of `nodes` with one chord, links of two widths."""
    names = "abcdefgh"[:nodes]
    pairs = [*pairwise(names), (names[-1], names[0]), (names[0], names[nodes // 2])]
    return network([(a, b, chance.choice((500, 1000))) for a, b in pairs])


def admit(chance, links, count, *, ends=None, deadline_s=None, most_mbit=None, weights=9):
    """A calendar and those of `count` random requests that it admits."""
    calendar = Calendar(json.dumps(links), "weir-all", EPOCH, paths=8)
    admitted = {}
    for number in range(count):
        source, destination = chance.choice(ends) if ends else chance.sample(links["nodes"], 2)
        span_s = deadline_s or chance.uniform(20.0, 120.0)
        mbit = chance.expovariate(1 / 25_000)
        size_bytes = 1000 + int(min(mbit, most_mbit or mbit) * MBIT / 8)
        asked = Asked(source, destination, size_bytes, span_s, chance.randint(1, weights))
        decision = calendar.submit(
            Time("0 s"),
            str(number),
            source,
            destination,
            Bytes.from_count(size_bytes),
            Time.from_ns(int(span_s * 1e9)),
            weight=asked.weight,
        )
        if decision.accepted:
            admitted[str(number)] = asked
    return calendar, admitted


def cut(calendar, admitted, links, name, part):
    """Leaves `part` of the link called so."""
    plans = {flow["id"]: flow["plan"] for flow in json.loads(calendar.snapshot())["flows"]}

    def is_touched(number):
        lanes = [lane for lane, _ in calendar.lanes(number)]
        return any(name in lanes[piece["path"]] for piece in plans[number])

    untouched = {number for number in admitted if not is_touched(number)}
    left_bps = int(part * next(x["capacity_bps"] for x in links["links"] if x["name"] == name))
    calendar.set_capacity(Time("0 s"), name, [], Rate.from_bit_per_s(left_bps))
    kept = {flow.id for flow in calendar.flows() if flow.state == "on_time"}
    rest = [
        link | {"capacity_bps": left_bps} if link["name"] == name else link
        for link in links["links"]
        if link["name"] != name or left_bps > 0
    ]

    def bound(extra):
        requests = [
            Request(x.source, x.destination, 0.0, x.deadline_s, x.size_bytes * 8.0, x.weight + more)
            for number, x in admitted.items()
            for more in [extra if number in untouched else 0.0]
        ]
        found = offline_bound(links | {"links": rest}, requests, whole=True, time_limit_s=20.0)
        return found.value - extra * len(untouched), found.reached

    weight = {number: asked.weight for number, asked in admitted.items()}
    of_all, is_solved = bound(0.0)
    # Worth more than all others together, none of them is left out.
    most, is_solved_too = bound(float(sum(weight.values()))) if untouched else (of_all, is_solved)
    return Cut(
        sum(weight.values()),
        sum(weight[number] for number in untouched),
        sum(admitted[number].size_bytes for number in untouched),
        untouched <= kept,
        sum(weight[number] for number in kept),
        most,
        of_all,
        is_solved and is_solved_too,
    )


def campaign(seeds, count, part):
    """A cut for each seed, of those that cost somebody his promise."""
    for seed in seeds:
        chance = random.Random(seed)
        links = ring(chance, chance.choice((4, 5)))
        calendar, admitted = admit(chance, links, count)
        name = chance.choice(links["links"])["name"]
        found = cut(calendar, admitted, links, name, part)
        if found.saved < found.admitted or found.most_of_all < found.admitted - TOLERANCE:
            yield found


def main():
    """Prints a row for each size of problem and of cut."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seeds", type=int, default=40)
    arguments.add_argument("--first", type=int, default=1)
    args = arguments.parse_args()
    for count in (15, 40):
        for part in (0.5, 0.25, 0.0):
            found = list(campaign(range(args.first, args.first + args.seeds), count, part))
            if not found:
                print(f"{count} requests, {part:.0%} left: nobody lost anything")
                continue
            shares = [x.saved / x.most for x in found]
            print(
                f"{count} requests, {part:.0%} left: {len(found)} cuts of {args.seeds} cost "
                f"somebody; saved {sum(x.saved for x in found)} of "
                f"{sum(x.most for x in found):.0f} (of {sum(x.most_of_all for x in found):.0f} "
                f"with nobody sure of his place); share in the mean {statistics.mean(shares):.3f}, "
                f"least {min(shares):.3f}, all of it in {sum(x > 0.9999 for x in shares)}; "
                f"{sum(x.solved for x in found)} solved"
            )


if __name__ == "__main__":
    main()
