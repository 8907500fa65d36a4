"""What the calendar counts, in Prometheus' text form."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from weir.calendar.elephants import Sightings
from weir.calendar.service.kept import Promises

# From 10 us, the engine alone, to 1 s, a disk in trouble.
_LATENCY_BUCKETS = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


class Metrics:
    """The metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.admissions = Counter("weir_admissions", "Transfers admitted", registry=registry)
        self.refusals = Counter("weir_refusals", "Transfers refused", ["link"], registry=registry)
        self.completions = Counter(
            "weir_completions", "Transfers completed", ["on_time"], registry=registry
        )
        self.misses = Counter("weir_misses", "Deadlines missed", registry=registry)
        self.delivered = Counter(
            "weir_delivered_bytes", "File bytes made durable", registry=registry
        )
        self.active = Gauge("weir_active_transfers", "Transfers not finished", registry=registry)
        self.waiting = Gauge(
            "weir_waiting_requests", "Requests that wait for their answers", registry=registry
        )
        self.at_risk = Gauge(
            "weir_at_risk_transfers", "Active transfers at risk", registry=registry
        )
        self.agents = Gauge("weir_agents_alive", "Agents heard of lately", registry=registry)
        self.readers = Gauge("weir_event_readers", "Connected event subscribers", registry=registry)
        self.clock_ahead = Gauge(
            "weir_clock_ahead_seconds",
            "The wall clock's lead over the calendar's time",
            registry=registry,
        )
        self.clock_steps = Counter(
            "weir_clock_steps",
            "Steps of the wall clock seen, gone again, or followed",
            ["change"],
            registry=registry,
        )
        self._of_links(registry)
        self.elephants = Gauge(
            "weir_elephants",
            "Elephants: told by applications, and of these marked; found by the controller",
            ["kind"],
            registry=registry,
        )
        self.decisions = Histogram(
            "weir_decision_seconds",
            "Time of the engine to admit or refuse",
            buckets=_LATENCY_BUCKETS,
            registry=registry,
        )
        self.commits = Histogram(
            "weir_commit_seconds",
            "Time to make a batch of outcomes durable",
            buckets=_LATENCY_BUCKETS,
            registry=registry,
        )

    def _of_links(self, registry: CollectorRegistry) -> None:
        self.capacity = Gauge(
            "weir_link_capacity_bps", "The calendar's share", ["link"], registry=registry
        )
        self.allotted = Gauge(
            "weir_link_allotted_ratio",
            "Allotted rates over capacity",
            ["link"],
            registry=registry,
        )
        self.measured = Gauge(
            "weir_link_measured_ratio",
            "Measured rates on the wire over capacity",
            ["link"],
            registry=registry,
        )
        self.promised = Gauge(
            "weir_promised_wire_bytes",
            "Bytes that switches were to carry of the transfers that a controller counts",
            registry=registry,
        )
        self.carried = Gauge(
            "weir_carried_wire_bytes", "Bytes that they have carried of these", registry=registry
        )
        self.alarms = Gauge(
            "weir_promise_alarms",
            "Active transfers whose packets are missing or off their path",
            registry=registry,
        )

    def utilisation(self, links: Iterable[tuple[str, int, int, float]]) -> None:
        """Sets the gauges of each link: name, capacity, allotted, measured on the wire, bit/s."""
        for name, capacity_bps, allotted_bps, measured_bps in links:
            self.capacity.labels(name).set(capacity_bps)
            self.allotted.labels(name).set(allotted_bps / max(1, capacity_bps))
            self.measured.labels(name).set(measured_bps / max(1, capacity_bps))

    def promises(self, kept: Promises) -> None:
        """Sets the gauges of promises."""
        self.promised.set(kept.promised_bytes)
        self.carried.set(kept.carried_bytes)
        self.alarms.set(kept.alarms)

    def herd(self, told: int, seen: Sightings) -> None:
        """Sets the gauges of elephants, so many of which are told of."""
        for kind, count in (("told", told), ("marked", seen.marked), ("found", len(seen.found))):
            self.elephants.labels(kind).set(count)

    def text(self) -> bytes:
        """The exposition, version 0.0.4."""
        return generate_latest(self._registry)
