"""Work 000, figure 1.4: pacing lets an urgent transfer meet a deadline that equal sharing misses.

Two transfers share 500 Mbit/s: 5 GB over a long path, due in 120 s, and 10 GB over a short one. The
figure paces them to 380 and 120 Mbit/s and gives the second the whole link when the first is done.
"""

import contextlib
import json
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from studies.rig.processes import module_command, started, weir_command
from studies.works.row import Outcome, Row, Verdict
from weir import Bytes, Rate, Time
from weir._core import Calendar
from weir.errors import TransferFailed
from weir.lab import Lab, parse
from weir.runs.point import Json, Point

_LINK_MBIT_S = 500
_CRITICAL_MBIT_S = 380
_DEADLINE_S = 120

# The deadline and the sizes shrink together, so the rates and the story stay.
_SCALE = 10
_CRITICAL_BYTES = 5_000_000_000
_OTHER_BYTES = 10_000_000_000

_SCENARIO = """
[lab]
name = "pacing"
[hosts.far]
[hosts.near]
[hosts.store]
[routers.edge]
[routers.core]
[[link]]
ends = ["far", "edge"]
delay = "30 ms"
[[link]]
ends = ["near", "edge"]
delay = "3 ms"
[[link]]
ends = ["edge", "core"]
rate = "500 Mbit/s"
delay = "2 ms"
queue = { discipline = "fifo", limit = "4 MB" }
[[link]]
ends = ["core", "store"]
"""


def fluid() -> Json:
    """The calendar's own admission and redistribution, in virtual time: ends in seconds."""
    capacity = {"name": "l", "from": "a", "to": "b", "capacity_bps": _LINK_MBIT_S * 10**6}
    network = json.dumps({"nodes": ["a", "b"], "links": [capacity]})
    calendar = Calendar(network, "local-ljf", Time("1 s"), completions="modelled")
    start, ceiling = Time("0 s"), Rate(f"{_CRITICAL_MBIT_S} Mbit/s")
    deadline = Time(f"{_DEADLINE_S} s")
    size = Bytes.from_count(_CRITICAL_BYTES)
    calendar.submit(start, "critical", "a", "b", size, deadline, ceiling)
    size = Bytes.from_count(_OTHER_BYTES)
    calendar.submit(start, "other", "a", "b", size, Time("900 s"))
    finish: dict[str, Json] = {}
    while len(finish) < 2:
        now = min(flow.completion for flow in calendar.flows())
        finish |= {id_: at.ns / 1e9 for id_, at in calendar.advance(now)}
        calendar.epoch(now)
    return finish


def _judge_fluid(results: Sequence[Json]) -> Outcome:
    (finish,) = cast(Sequence[dict[str, float]], results)
    ours = f"critical at {finish['critical']:.1f} s, other at {finish['other']:.1f} s"
    expected = {"critical": 105.3, "other": 240.0}
    close = all(abs(finish[id_] - at) < 0.1 for id_, at in expected.items())
    return Outcome(ours, Verdict.MATCHES if close else Verdict.DIFFERS)


def live(*, paced: bool) -> Json:
    """Real files over the kernel's TCP: ends in seconds from the common start."""
    with (
        Lab.up(parse(_SCENARIO, "the scenario of figure 1.4")) as lab,
        tempfile.TemporaryDirectory() as scratch,
    ):
        return _run(lab, Path(scratch), paced=paced)


def _judge_live(results: Sequence[Json]) -> Outcome:
    unpaced, paced = cast(Sequence[dict[str, float]], results)
    deadline_s = _DEADLINE_S / _SCALE
    ours = (
        f"unpaced: critical {unpaced['critical']:.1f} s, other {unpaced['other']:.1f} s; "
        f"paced: critical {paced['critical']:.1f} s, other {paced['other']:.1f} s; "
        f"deadline {deadline_s:.0f} s"
    )
    holds = paced["critical"] <= deadline_s < unpaced["critical"]
    reason = "sizes and deadline are a tenth; CUBIC instead of H-TCP, which this kernel lacks"
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason)


def _run(lab: Lab, place: Path, *, paced: bool) -> Json:
    _write(place / "critical", _CRITICAL_BYTES // _SCALE)
    _write(place / "other", _OTHER_BYTES // _SCALE)
    rest = _LINK_MBIT_S - _CRITICAL_MBIT_S
    with _server(lab, place) as server:
        critical = _Sender(lab, "far", place / "critical", f"{server}/got-critical")
        other = _Sender(lab, "near", place / "other", f"{server}/got-other")
        begin = time.monotonic()
        critical.pace(f"{_CRITICAL_MBIT_S} Mbit/s" if paced else "unpaced")
        other.pace(f"{rest} Mbit/s" if paced else "unpaced")
        critical.wait()
        critical_s = time.monotonic() - begin
        other.pace("unpaced")
        other.wait()
        return {"critical": critical_s, "other": time.monotonic() - begin}


def _write(path: Path, size: int) -> None:
    block = random.Random(path.name).randbytes(1_000_000)
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)


@contextlib.contextmanager
def _server(lab: Lab, directory: Path) -> Iterator[str]:
    """`weir serve` in the host `store`; gives its HOST:PORT once it listens."""
    listen = f"{lab.address('store')}:7411"
    command = weir_command("serve", "--root", directory, "--listen", listen)
    with started(lab, "store", [*command, "--insecure", "--json"]):
        yield listen


class _Sender:
    """A mover inside a lab host that starts at its first rate and takes further ones.

    It is ready when this returns: at a tenth of the size, the seconds that a busy machine takes to
    start and to end a program would count ten times as much as in the figure.
    """

    def __init__(self, lab: Lab, host: str, source: Path, destination: str) -> None:
        self._process = lab.popen(
            host,
            module_command("studies.rig.paced_sender", source, destination),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._await("ready")

    def pace(self, rate: str) -> None:
        """Sets the rate, or `unpaced`; one that has finished already does not mind."""
        assert self._process.stdin is not None, "asked for above"
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(rate + "\n")
            self._process.stdin.flush()

    def wait(self) -> None:
        """Waits until the file is delivered and verified."""
        self._await("delivered")

    def _await(self, word: str) -> None:
        assert self._process.stdout is not None, "asked for above"
        if self._process.stdout.readline().strip() != word:
            code = self._process.wait(timeout=120)
            raise TransferFailed(f"a sender in the lab ended with {code} before it was {word}")


ROWS = [
    Row(
        "000-fig-1.4-fluid",
        "Two transfers over 500 Mbit/s, paced and then released by the calendar",
        "critical done by its 120 s; both complete (derived: 105.3 s and 240.0 s)",
        lambda quick: [Point(fluid, {})],
        _judge_fluid,
    ),
    Row(
        "000-fig-1.4",
        "Two transfers on the kernel's TCP in the lab, at a tenth of the size, unpaced and paced",
        "unpaced: the critical transfer misses its deadline; paced: it meets it, both complete",
        lambda quick: [Point(live, {"paced": paced}) for paced in (False, True)],
        _judge_live,
        live=1,
    ),
]
