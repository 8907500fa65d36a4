"""How near VD-DUT is to the pixels: a thousand updates of a desktop by each protocol.

What packets alone tell of a picture's arrival stands beside what the screen showed, at losses from
0 to 10 %, one desktop at a time. It goes in pieces, each a desktop of its own at one loss, and each
is in `out/bench/desktop-pieces.jsonl` once it is done: what is stopped goes on from there when it
is started again, and a file that is removed is begun anew. `python -m benches.desktop` prints the
table of what is there.

The environment has what may be changed: WEIR_BENCH_DESKTOP (protocols, with commas between),
WEIR_BENCH_DESKTOP_UPDATES (of each protocol), WEIR_BENCH_DESKTOP_PIECE (updates of a piece) and
WEIR_BENCH_DESKTOP_LIMIT (seconds after which no update of a piece begins).
"""

import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benches import harness
from benches.harness_machine import load_average, machine_notes, package_versions
from studies.rig.desktop import lossy
from studies.rig.desktop.lossy import RDP, RTP, VNC, Line
from weir.errors import BadInput, Unavailable, Unsupported, WeirError

PROTOCOLS = (VNC, RDP, RTP)
LOSSES = (0.0, 0.5, 3.0, 5.0, 10.0)
"""In percent: the work's (000-spec 5.2)."""
NEAR_S, REFRESH_S = 0.005, 1 / 60
"""What is asked of 95 % of all updates: to be within either, whichever is the longer."""
PACKAGES = ["tigervnc-standalone-server", "xrdp", "freerdp2-x11", "gstreamer1.0-plugins-good"]
_FAILURES = 3
"""After so many in a row, a protocol at a loss is given up until the next start."""
_GRACE_S = 180.0
"""What a piece may take beside its updates: to come up, to end the last one, to go down."""

Cell = tuple[str, float]
"""A protocol, and the loss in percent."""
Piece = Mapping[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        protocols: by which.
        updates: of each protocol, at all losses together.
        piece: updates of one desktop.
        limit_s: no update of a piece begins later behind its first.
    """

    protocols: tuple[str, ...] = PROTOCOLS
    updates: int = 1000
    piece: int = 67
    limit_s: float = 900.0

    def each(self) -> int:
        """Updates at each loss."""
        return math.ceil(self.updates / len(LOSSES))

    def cells(self) -> list[Cell]:
        """All of them."""
        return [(protocol, loss) for loss in LOSSES for protocol in self.protocols]


QUICK = Sizes(updates=10, piece=2)


def sizes() -> Sizes:
    """What the environment asks for.

    Raises:
        BadInput: a protocol that is none, or a number that is none or too small.
    """
    usual = QUICK if harness.quick() else Sizes()
    named = os.environ.get("WEIR_BENCH_DESKTOP", "")
    protocols = tuple(named.split(",")) if named else usual.protocols
    for one in protocols:
        if one not in PROTOCOLS:
            raise BadInput(f"WEIR_BENCH_DESKTOP: {one!r} is none of {', '.join(PROTOCOLS)}")
    return Sizes(
        protocols,
        _number("UPDATES", usual.updates),
        _number("PIECE", usual.piece),
        _number("LIMIT", round(usual.limit_s)),
    )


def _number(name: str, usual: int) -> int:
    text = os.environ.get(f"WEIR_BENCH_DESKTOP_{name}", "")
    if not text:
        return usual
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise BadInput(f"WEIR_BENCH_DESKTOP_{name}={text}: a whole number of 1 or more is wanted")
    return int(text)


def kept(out: Path = harness.OUT) -> Path:
    """Where pieces are kept; those of a quick run apart."""
    return out / f"desktop-pieces{'-quick' if harness.quick() else ''}.jsonl"


def read(path: Path) -> list[Piece]:
    """The pieces that are there; one that was cut while it was written is none.

    Raises:
        BadInput: another line is no piece.
    """
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    found = []
    for number, line in enumerate(lines, 1):
        try:
            piece = json.loads(line)
            found.append({"cell": (piece["protocol"], piece["percent"]), **piece})
        except (ValueError, KeyError, TypeError):
            if number == len(lines) and not line.endswith("\n"):
                break
            raise BadInput(f"{path}: line {number} is no piece of this benchmark") from None
    return found


def append(path: Path, piece: Piece) -> None:
    """Keeps a piece: it is on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        whole = file.read()
        file.truncate(whole.rfind(b"\n") + 1)  # what was cut would spoil the next line
        file.write(json.dumps(piece).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def next_cell(pieces: Sequence[Piece], wanted: Sizes, given_up: Sequence[Cell]) -> Cell | None:
    """Where the fewest updates were measured of those that lack some; None if all are there."""
    counts = _counts(pieces)
    lacking = [one for one in wanted.cells() if counts[one] < wanted.each() and one not in given_up]
    return min(lacking, key=lambda one: counts[one], default=None)


def _counts(pieces: Sequence[Piece]) -> Counter[Cell]:
    """How many updates there are of each."""
    counts: Counter[Cell] = Counter()
    for piece in pieces:
        counts[piece["cell"]] += len(piece["updates"])
    return counts


def session(path: Path, wanted: Sizes) -> list[Piece]:
    """Measures what is lacking, piece by piece; all there is then, of what is wanted.

    Raises:
        Unsupported: a program of a protocol is missing, or this machine has no labs.
        Unavailable: of some protocol pieces failed again and again; what was measured is kept.
    """
    for protocol in wanted.protocols:
        if (lacking := lossy.missing(protocol)) is not None:
            raise Unsupported(lacking)
    pieces = read(path)
    given_up: dict[Cell, str] = {}
    failures: Counter[Cell] = Counter()
    while (cell := next_cell(pieces, wanted, list(given_up))) is not None:
        piece = _measured(cell, pieces, wanted)
        append(path, piece)
        pieces.append({"cell": cell, **piece})
        print(_told(cell, piece, pieces, wanted), flush=True)
        failures[cell] = failures[cell] + 1 if piece["failed"] else 0
        if failures[cell] == _FAILURES:
            given_up[cell] = piece["failed"]
    ours = [piece for piece in pieces if piece["cell"] in wanted.cells()]
    if given_up:
        Console().print(table(ours))
        (protocol, percent), why = next(iter(given_up.items()))
        raise Unavailable(
            f"{len(given_up)} of {len(wanted.cells())} were given up: {protocol} at {percent:g} %: "
            f"{why}"
        )
    return ours


def _measured(cell: Cell, pieces: Sequence[Piece], wanted: Sizes) -> Piece:
    """The next piece of a cell, by a program of its own, which can be ended whatever it does."""
    protocol, percent = cell
    before = [piece for piece in pieces if piece["cell"] == cell]
    asked = min(wanted.piece, wanted.each() - _counts(before)[cell])
    asking = {
        "protocol": protocol,
        "percent": percent,
        "asked": asked,
        # Each piece loses other packets than those before.
        "seed": len(before) + 1,
        "limit_s": wanted.limit_s,
    }
    command = [sys.executable, "-m", "benches.desktop", json.dumps(asking)]
    begun, load, begin_s = datetime.now(UTC), load_average()[0], time.monotonic()
    updates, setup_s, failed = [], None, ""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=wanted.limit_s + _GRACE_S,
            start_new_session=True,
            check=False,
        )
        if done.returncode:
            failed = " ".join(done.stderr.strip().splitlines()[-1:]) or f"exit {done.returncode}"
        else:
            found = json.loads(done.stdout)
            updates, setup_s = found["updates"], found["setup_s"]
    except subprocess.TimeoutExpired:
        failed = f"it did not end within {wanted.limit_s + _GRACE_S:g} s"
    return {
        **asking,
        "at": begun.isoformat(timespec="seconds"),
        "commit": machine_notes()["commit"],
        "load": [load, load_average()[0]],
        "setup_s": setup_s,
        "took_s": round(time.monotonic() - begin_s, 1),
        "failed": failed,
        "updates": updates,
    }


def piece(asking: Mapping[str, Any]) -> dict[str, Any]:
    """One desktop at one loss: what was measured, and how long it took until it could begin."""
    begin_s = time.monotonic()
    first_s: list[float] = []

    def told(key: str) -> None:
        first_s.append(time.monotonic() - begin_s)

    found = lossy.carry_out(
        "i" * asking["asked"],
        Line(asking["percent"] / 100),
        asking["seed"],
        told,
        protocol=asking["protocol"],
        limit_s=asking["limit_s"],
    )
    # The first update took its own time and a pause.
    first = (found[0].screen or 0.0) + lossy.PAUSES_S[asking["protocol"]]
    return {"setup_s": round(first_s[0] - first, 1), "updates": [asdict(one) for one in found]}


def _told(cell: Cell, piece: Piece, pieces: Sequence[Piece], wanted: Sizes) -> str:
    protocol, percent = cell
    said = piece["failed"] or f"{len(piece['updates'])} updates of {piece['asked']}"
    done = sum(min(_counts(pieces)[one], wanted.each()) for one in wanted.cells())
    whole = wanted.each() * len(wanted.cells())
    return f"{protocol}, {percent:g} %: {said} in {piece['took_s']:.0f} s; {done} of {whole} in all"


@dataclass(frozen=True)
class Nearness:
    """How near packets were to the screen.

    Attributes:
        updates: how many.
        untold: of which either said nothing: packets, or the screen within a minute.
        near: the share of all that were within 5 ms of each other.
        within: within a refresh.
        patient: the same with a GAP of 10 s, for pauses of TCP may be longer than GAP.
        median_s: of the distance, where both say something; NaN where none did.
        most_s: what 95 % are not further apart than.
        waited_s: what 95 % of the times are below that the screen's program waited for a
            processor, which a screen of its own would not.
        load: the machine's mean load.
    """

    updates: int
    untold: int
    near: float
    within: float
    patient: float
    median_s: float
    most_s: float
    waited_s: float
    load: float


def nearness(pieces: Sequence[Piece]) -> Nearness:
    """How near they were in all updates of some pieces, of which there is one at least."""
    updates = [one for piece in pieces for one in piece["updates"]]
    distances, patient = (_distances(updates, name) for name in ("fresh_dut", "patient_dut"))
    told = np.array(distances or [math.nan])
    loads = [load for piece in pieces for load in piece["load"]]
    return Nearness(
        len(updates),
        len(updates) - len(distances),
        int((told <= NEAR_S).sum()) / len(updates),
        int((told <= REFRESH_S).sum()) / len(updates),
        sum(one <= REFRESH_S for one in patient) / len(updates),
        float(np.quantile(told, 0.5)),
        float(np.quantile(told, 0.95)),
        float(np.quantile([one["waited"] for one in updates], 0.95)),
        float(np.mean(loads)),
    )


def _distances(updates: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """How far packets and screen are apart, in s, where both say something."""
    return [
        abs(one[name] - one["screen"])
        for one in updates
        if one[name] is not None and one["screen"] is not None
    ]


def _groups(pieces: Sequence[Piece]) -> Iterator[tuple[str, str, Nearness]]:
    """Each protocol: at each loss, then at all."""
    measured = [piece for piece in pieces if piece["updates"]]
    for protocol in PROTOCOLS:
        ours = [piece for piece in measured if piece["protocol"] == protocol]
        for percent in LOSSES:
            if cell := [piece for piece in ours if piece["percent"] == percent]:
                yield protocol, f"{percent:g} %", nearness(cell)
        if ours:
            yield protocol, "all", nearness(ours)


def table(pieces: Sequence[Piece]) -> Table:
    """What was measured, as a person reads it."""
    refresh = f"{1e3 * REFRESH_S:.1f}"
    result = Table(
        title="packets beside pixels",
        caption=f"of n updates, % within 5 ms, within a refresh ({refresh} ms), and within one "
        "with a GAP of 10 s; how far apart (median, 95 %), and how long the screen's program "
        "waited for a processor (95 %), in ms",
        padding=0,
    )
    shares = ("≤ 5", f"≤ {refresh}", "10 s")
    for name in ("by", "loss", "n", "untold", *shares, "p50", "p95", "waited", "load"):
        result.add_column(name, justify="left" if name == "by" else "right")
    for protocol, loss, found in _groups(pieces):
        result.add_row(
            protocol,
            loss,
            str(found.updates),
            str(found.untold or ""),
            *(f"{100 * one:.1f}" for one in (found.near, found.within, found.patient)),
            *(f"{1e3 * one:.1f}" for one in (found.median_s, found.most_s, found.waited_s)),
            f"{found.load:.1f}",
            end_section=loss == "all",
        )
    return result


def rows(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """The same for the harness: nobody to compare with, but the pixels."""
    result = []
    for protocol, loss, found in _groups(pieces):
        where = f"{protocol.upper()}, {loss} loss" if loss != "all" else f"{protocol.upper()}, all"
        parts = [
            ("updates within 5 ms of the pixels", "%", 100 * found.near),
            ("updates within a refresh of the pixels", "%", 100 * found.within),
            ("updates within a refresh, with a GAP of 10 s", "%", 100 * found.patient),
        ]
        if not math.isnan(found.most_s):
            parts.append(("packets and pixels apart, 95 % of updates", "ms", 1e3 * found.most_s))
        result += [
            harness.row(f"{where}: {what}", unit, value, None, None, found.updates)
            for what, unit, value in parts
        ]
    return result


def notes() -> dict[str, Any]:
    """For the machine notes: programs' versions; loads and times of the pieces, by protocol."""
    pieces = read(kept())
    return {
        "packages": package_versions(PACKAGES),
        "commits": sorted({str(piece["commit"]) for piece in pieces}),
        "pieces": {
            protocol: {
                "pieces": len(ours),
                "failed": sum(bool(piece["failed"]) for piece in ours),
                "took_s": round(sum(piece["took_s"] for piece in ours), 1),
                "setup_s": round(sum(piece["setup_s"] or 0.0 for piece in ours), 1),
                "load": [min(loads), max(loads)],
            }
            for protocol in PROTOCOLS
            if (ours := [piece for piece in pieces if piece["protocol"] == protocol])
            and (loads := [load for piece in ours for load in piece["load"]])
        },
    }


def run() -> list[dict[str, Any]]:
    """The whole benchmark, or what is lacking of it; a small one when WEIR_BENCH_QUICK=1."""
    path, wanted = kept(), sizes()
    if harness.quick():
        path.unlink(missing_ok=True)
    pieces = session(path, wanted)
    print(f"all pieces are in {path}; without that file all is measured anew", flush=True)
    Console().print(table(pieces))
    return rows(pieces)


def main(argv: Sequence[str]) -> int:
    """Prints the table of what was measured; with a piece's JSON it carries that out."""
    try:
        if argv:
            print(json.dumps(piece(json.loads(argv[0]))))
        else:
            Console().print(table(read(kept())))
    except WeirError as error:
        print(f"benches.desktop: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
