"""`weir demo fabric`: which ports of an InfiniBand fabric wait for credits, asked quickly.

Work 000's measurement (000-spec 2) in three parts: its worked example; a victim in Weir's own
fabric, found by its port's counter; and 4 000 ports of a fabric of ibsim, asked by us and by the
programs that administrators have.
"""

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from studies.demonstration.scaffold import Figures
from studies.rig import ibsim
from studies.rig.workspace import open_workspace
from studies.works.w000.ch2_victims import HOST_BPS, PHASE_NS, scenario
from weir import Bytes, Time, python
from weir.chart.panels import Curve, Panel, draw
from weir.format import percent, rate
from weir.lab.scenario import Credits
from weir.observe.infiniband import asking, dump, plan, waiting
from weir.sim.core import simulated
from weir.terminal import Column, Table

EDGES, TOPS, HOSTS, ABOVE = 80, 20, 30, 10
"""100 switches of 40 ports, 2 400 hosts."""
_PERFQUERY_PORTS = 100
"""How many ports perfquery is started for, one by one; for all it would take so much longer."""
_SWEEPS = 5
_FILES_BYTES = 16 << 20
"""What the fabric's plan, its dump and logs need, at least."""
_GOLDEN = 1.179

_PHASES = 3
_LOOK_NS = 500_000


@dataclass
class _Part:
    """A row of the table."""

    name: str
    found: str = ""
    beside: str = ""
    state: str = "waits"


@dataclass
class _Victim:
    """What the victim had, and its port, look by look.

    Attributes:
        rates_gbit_s: that arrived of the victim.
        waited: the share of time that the port before it waited.
        before_bps: the victim's rate before the congestion.
        during_bps: and during it.
        waited_share: of the port meanwhile.
        after_bps: the victim's rate when it is over.
    """

    rates_gbit_s: Sequence[float]
    waited: Sequence[float]
    before_bps: float
    during_bps: float
    waited_share: float
    after_bps: float


@dataclass
class _Asked:
    """How long it took to ask all ports, in s, and of how many programs."""

    ports: int
    discovery_s: float
    sweep_s: float
    first_s: float
    perfquery_s: float
    errors_s: float
    agree: bool


class StalledFabric:
    """The demonstration.

    Args:
        seed: of the counters that are set.
        edges: switches with hosts; four times those above.
    """

    name = "fabric"
    caption = "a flow that is slowed by a port it does not use, and the counter that tells"
    intro = (
        "The work's example of FITF; a victim of congestion, found by PortXmitWait; and 4 000 "
        "ports of a simulated InfiniBand fabric, asked by Weir, by perfquery and by ibqueryerrors. "
        "Not two minutes."
    )

    def __init__(self, seed: int, edges: int = EDGES) -> None:
        self._seed, self._edges = seed, edges
        self._golden = 0.0
        self._victim: _Victim | None = None
        self._asked: _Asked | None = None
        self._left_out: str | None = None
        self._parts = [
            _Part("the work's pair of queries"),
            _Part("a victim of congestion"),
            _Part("4 000 ports"),
        ]

    def carry_out(self, changed: Callable[[], None]) -> None:
        """The three parts, one after the other."""
        golden, victim, asked = self._parts
        self._golden = waiting.fitf(6656811, 22, 120953793, (18350267, 24841529))
        golden.found, golden.beside = f"FITF {self._golden:.3f}", f"printed {_GOLDEN}"
        golden.state, victim.state = "done", "runs"
        changed()
        self._victim = found = _find_victim(self._seed)
        victim.found = f"{rate(found.before_bps)} falls to {rate(found.during_bps)}"
        victim.beside = f"its port waits {percent(found.waited_share)} of the time"
        victim.state, asked.state = "done", "runs"
        changed()
        self._left_out = ibsim.lacking()
        if self._left_out is not None:
            asked.state = f"left out: {self._left_out}"
            return
        self._asked = times = _ask(self._edges, self._seed)
        asked.name = f"{times.ports} ports"
        asked.found = f"Weir {times.sweep_s:.2f} s"
        asked.beside = f"perfquery {times.perfquery_s:.0f} s, ibqueryerrors {times.errors_s:.1f} s"
        asked.state = "done, the same counters" if times.agree else "counters differ"
        changed()

    def table(self) -> Table:
        """What each part found."""
        table = Table("", Column("found", right=True), Column("beside", right=True), "")
        for part in self._parts:
            table.add_row(part.name, part.found, part.beside, part.state)
        return table

    def notes(self) -> Iterator[Text]:
        """How the times were taken."""
        if self._asked:
            yield Text(
                f"perfquery was started once for each of {_PERFQUERY_PORTS} ports, and its time "
                "taken for all; Weir's first sweep, which asks for ticks too, took "
                f"{self._asked.first_s:.2f} s. ibqueryerrors looks for the fabric first; "
                f"Weir keeps what ibnetdiscover found in {self._asked.discovery_s:.2f} s."
            )

    def facts(self) -> Iterator[Mapping[str, object]]:
        """An object a part."""
        for part in self._parts:
            facts = {"part": part.name, "found": part.found, "beside": part.beside}
            yield facts | {"state": part.state}

    def figures(self) -> Figures:
        """All of them; None where a part was left out, and why."""
        figures: dict[str, bool | int | float | str | None] = {
            "seed": self._seed,
            "fitf_golden": round(self._golden, 4),
        }
        if victim := self._victim:
            figures |= {
                "victim_before_bps": round(victim.before_bps),
                "victim_during_bps": round(victim.during_bps),
                "victim_after_bps": round(victim.after_bps),
                "victim_port_waited_share": round(victim.waited_share, 4),
            }
        asked = self._asked
        return figures | {
            "sweep_ports": asked.ports if asked else None,
            "discovery_s": round(asked.discovery_s, 3) if asked else None,
            "sweep_s": round(asked.sweep_s, 3) if asked else None,
            "first_sweep_s": round(asked.first_s, 3) if asked else None,
            "perfquery_loop_s": round(asked.perfquery_s, 1) if asked else None,
            "perfquery_loop_measured_ports": _PERFQUERY_PORTS if asked else None,
            "ibqueryerrors_s": round(asked.errors_s, 2) if asked else None,
            "counters_agree": asked.agree if asked else None,
            "left_out": self._left_out,
        }

    def picture(self) -> str:
        """The victim's rate, and what its port's counter says."""
        found = self._victim
        assert found is not None
        step_s = _LOOK_NS / 1e9
        marks = [(PHASE_NS / 1e9, "others send"), (2 * PHASE_NS / 1e9, "they end")]
        full_gbit_s = HOST_BPS / 1e9
        shares = [100 * one / full_gbit_s for one in found.rates_gbit_s]
        rates = [Curve("rate", shares, "#0072b2")]
        waits = [Curve("waited", [100 * one for one in found.waited], "#d55e00")]
        sent = f"of the {full_gbit_s:g} Gbit/s that a host sends"
        panels = [
            Panel("A flow that does not use the congested port", sent, rates, step_s, marks),
            Panel("FITF of the port that it leaves by", "of the time", waits, step_s, marks),
        ]
        return draw(panels, 2, "A victim in a lossless fabric", "%", 120)

    def holds(self) -> bool:
        """Whether each part that ran showed its point."""
        victim, asked = self._victim, self._asked
        is_golden = round(self._golden, 3) == _GOLDEN
        is_found = victim is not None and victim.waited_share > 0.2
        is_slowed = victim is not None and victim.during_bps < 0.4 * victim.before_bps
        is_quick = asked is None or (asked.agree and asked.sweep_s < asked.perfquery_s)
        return is_golden and is_found and is_slowed and is_quick


def _find_victim(seed: int) -> _Victim:
    """Figure 2.1 of the work: three hosts send to one port, one of them beside the victim."""
    made = scenario(HOST_BPS, _PHASES, (1, 2), Credits(Bytes("64 KiB")), seed=seed)
    result = simulated(
        made, Time.from_ns(_PHASES * PHASE_NS), sample=Time.from_ns(_LOOK_NS), trace=True
    )
    lines = [line.split(",") for line in result["traces"]["credits"].splitlines()[1:]]
    sent = [int(one[3]) for one in lines if one[1:3] == ["s-peer", "forward"]]
    waits = [int(one[4]) for one in lines if one[1:3] == ["r-s", "forward"]]
    rates = [(b - a) * 8e9 / _LOOK_NS for a, b in itertools.pairwise(sent)]
    waited = [(b - a) / _LOOK_NS for a, b in itertools.pairwise(waits)]
    third = len(waited) // _PHASES
    during = slice(third + third // 4, 2 * third)
    return _Victim(
        [one / 1e9 for one in rates],
        waited,
        _mean(rates[: third - 1]),
        _mean(rates[during]),
        _mean(waited[during]),
        _mean(rates[2 * third + third // 4 :]),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def _ask(edges: int, seed: int) -> _Asked:
    """All ports of a fabric of ibsim, by each program."""
    fabric = plan.fat_tree(edges, edges * TOPS // EDGES, HOSTS, ABOVE)
    with open_workspace(_FILES_BYTES) as folder, ibsim.running(fabric, folder) as running:
        begin = time.monotonic()
        (folder / "dump.net").write_text(running.run(["ibnetdiscover"]))
        discovery_s = time.monotonic() - begin
        found = dump.load(folder / "dump.net")
        ports = [port for port in asking.ports_of(found) if port.is_up]
        chosen = ports[:: max(1, len(ports) // _PERFQUERY_PORTS)][:_PERFQUERY_PORTS]
        names = {node.lid: node.name for node in dump.switches(found)}
        ticks = {port: 1_000 * (number + seed) for number, port in enumerate(chosen)}
        running.count(*((names[one.lid], one.number, n) for one, n in ticks.items()))
        expected = {(one.lid, one.number): n for one, n in ticks.items()}
        first_s, sweep_s, ours = _sweep(running)
        begin = time.monotonic()
        theirs = {(p.lid, p.number): _perfquery(running, p) for p in chosen}
        each_s = (time.monotonic() - begin) / len(chosen)
        begin = time.monotonic()
        running.run(["ibqueryerrors", "--counters"])
        errors_s = time.monotonic() - begin
    agree = theirs == expected and {place: ours[place] for place in expected} == expected
    return _Asked(len(ports), discovery_s, sweep_s, first_s, each_s * len(ports), errors_s, agree)


def _perfquery(running: ibsim.Simulated, port: asking.Port) -> int:
    printed = running.run(["perfquery", str(port.lid), str(port.number)])
    found = re.search(r"^PortXmitWait:\.*(\d+)$", printed, re.M)
    return int(found[1]) if found else -1


def _sweep(running: ibsim.Simulated) -> tuple[float, float, dict[tuple[int, int], int]]:
    """How long our first sweep took, the median of more, and what the last one read."""
    command = python.program("studies.rig.swept", "dump.net", str(_SWEEPS))
    lines = [json.loads(line) for line in running.run(command).splitlines()]
    first, *rest = (line["took_s"] for line in lines[:-1])
    times = sorted(rest)
    counters = {(lid, port): ticks for lid, port, ticks in lines[-1]["counters"]}
    return first, times[len(times) // 2], counters
