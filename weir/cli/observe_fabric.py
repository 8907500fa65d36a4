"""`weir observe fabric`: how long the ports of an InfiniBand fabric wait for credits."""

import argparse
import contextlib
import io
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from weir.cli import output
from weir.errors import BadInput, Unavailable, Unsupported
from weir.format import percent, rate
from weir.printable import printable

if TYPE_CHECKING:
    from weir.observe.infiniband.dump import Fabric
    from weir.observe.infiniband.records import Rows
    from weir.observe.infiniband.report import Waited
    from weir.observe.infiniband.watched import Watched

LISTEN = "127.0.0.1:9418"
_INTERRUPTED = 130
_DEVICE_PORT_MAX, _TICK_NS_MAX = 254, 1e9
_LINES_AROUND = 5
"""Lines of a terminal beside those of the ports."""
_SUBSYSTEM = re.compile(r"[\w-]{1,9}")
"""With what follows it has to go into a record."""
_SILENT = "no port that was asked answered"
_EPILOG = """\
A share is FITF, the part of the time in which a port had data and no credits; more than 100 % says
that the counter was read earlier or later than thought. What has no value (no answer, no link, a
counter at its end, Ethernet, one that ran backwards) is told apart and is neither."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the commands."""
    parser.epilog = _EPILOG
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    sweep = _command(commands, "sweep", "ask every port twice: which waited, and how long", _sweep)
    _asking(sweep)
    sweep.add_argument(
        "--lanes", action="store_true", help="which virtual lanes wait, for the ports shown"
    )
    sweep.add_argument("--count", type=int, default=2, metavar="N", help="sweeps (%(default)s)")
    sweep.add_argument("--out", type=Path, metavar="FILE", help="write every answer, as CSV")
    rounds = _command(commands, "rounds", "a port at random, asked 100 times, and again", _rounds)
    _asking(rounds)
    _campaign(rounds)
    top = _command(commands, "top", "the ports that wait most, again and again, till Ctrl-C", _top)
    _asking(top)
    top.add_argument("--count", type=int, metavar="N", help="end after N sweeps (default never)")
    serve = _command(commands, "serve", "sweep for ever, for Prometheus to ask", _serve)
    _asking(serve)
    serve.add_argument(
        "--listen", default=LISTEN, metavar="ADDR", help=f"HOST:PORT (default {LISTEN})"
    )
    classify = _command(
        commands, "classify", "what each switch is, and where its ports lead, by a dump", _classify
    )
    classify.add_argument("dump", type=Path, metavar="DUMP", help="what ibnetdiscover printed")
    _subsystems(classify)
    classify.add_argument("--records", type=Path, metavar="FILE", help="records to complete")
    classify.add_argument("--out", type=Path, metavar="FILE", help="where to, as CSV")
    analyse = _command(
        commands, "analyse", "records by kind of switch: shares, maxima, outliers", _analyse
    )
    analyse.add_argument("records", type=Path, nargs="+", metavar="FILE", help="CSV files")
    analyse.add_argument(
        "--tick-ns", type=float, metavar="NS", help="how long a tick takes, for all ports"
    )
    analyse.add_argument(
        "--fabric", type=Path, metavar="DUMP", help="find kinds and directions by this dump"
    )
    _subsystems(analyse)
    plan = _command(commands, "plan", "the work's cluster, as ibnetdiscover would print it", _plan)
    plan.add_argument("--out", type=Path, metavar="FILE", help="where to (default: print it)")
    plan.add_argument("--small", action="store_true", help="its kind in small: 25 switches")


def _command(commands: Any, name: str, summary: str, action: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary)
    if name != "plan":
        parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.set_defaults(action=action)
    return parser


def _asking(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--files", action="store_true", help="this host's ports, by the kernel's counter files"
    )
    parser.add_argument(
        "--fabric",
        type=Path,
        metavar="FILE",
        help="keep ibnetdiscover's dump here; used if there, renewed when ports do not answer",
    )
    parser.add_argument("--device", metavar="NAME", help="the adapter, such as mlx5_0")
    parser.add_argument("--device-port", type=int, default=0, metavar="N", help="and its port")
    parser.add_argument(
        "--every", type=float, default=1.0, metavar="S", help="seconds from sweep to sweep (1)"
    )
    parser.add_argument("--most", type=int, default=20, metavar="N", help="ports to show (20)")
    _subsystems(parser)


def _subsystems(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--subsystems",
        type=_names,
        default=[],
        metavar="NAMES",
        help="names of the trees beside the main one, nearest first: Glade,DAV",
    )


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if not _SUBSYSTEM.fullmatch(name):
            raise argparse.ArgumentTypeError(
                f"{printable(name)!r} is no name of 1 to 9 letters, digits or dashes"
            )
    return names


def _campaign(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="CSV, made anew")
    parser.add_argument("--window", type=float, default=1200, metavar="S", help="run time (1200)")
    parser.add_argument("--queries", type=int, default=100, metavar="N", help="in a round (100)")
    parser.add_argument("--gap", type=float, default=0.1, metavar="S", help="between them (0.1)")
    parser.add_argument("--instances", type=int, default=1, metavar="N", help="that share the LIDs")
    parser.add_argument("--instance", type=int, default=1, metavar="K", help="which this one is")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the draws (1)")


@contextlib.contextmanager
def _asked(args: argparse.Namespace) -> "Iterator[Watched]":
    """Whom a command asks."""
    from weir.observe.infiniband.watched import this_host, whole_fabric

    _check(args)
    if args.files:
        yield this_host()
        return
    ends = (args.device, args.device_port, args.fabric, args.subsystems)
    with whole_fabric(*ends, _say) as watched:
        yield watched


def _say(line: str) -> None:
    print(f"weir: {printable(line)}", file=sys.stderr, flush=True)


def _check(args: argparse.Namespace) -> None:
    """Sees that what is asked for has an end, and does not take all of a processor."""
    from weir.observe.infiniband.collect import MOST_S

    if not 0 <= args.every <= MOST_S:  # what is no number is neither
        raise BadInput(f"--every {args.every:g}: 0 s or more, and up to {MOST_S:.0f} s")
    if args.most < 0:
        raise BadInput(f"--most {args.most}: 0 or more")
    if not 0 <= args.device_port <= _DEVICE_PORT_MAX:
        raise BadInput(f"--device-port {args.device_port}: up to {_DEVICE_PORT_MAX}")


def _sweep(args: argparse.Namespace) -> int:
    from weir.observe.infiniband import collect
    from weir.observe.infiniband.report import Waits, none_answered

    if args.count < (1 if args.out else 2):
        raise BadInput("--count wants two sweeps or more: a counter says nothing, its growth does")
    output.is_the_work()
    with _asked(args) as asked, _kept(args.out) as keep:
        waits, done, code, is_silent = Waits(), 0, 0, True
        begin_ns: int | None = None
        ends = (asked.backend, asked.ports, args.count, args.every, asked.names)
        try:
            for rows in collect.sweeps(*ends, asked.renewed):
                # All sweeps are one round of each port, whoever comes late to the fabric.
                begin_ns = int(rows["round_ns"][0]) if begin_ns is None else begin_ns
                rows["round_ns"] = begin_ns
                waits.add(rows)
                keep(rows)
                is_silent &= none_answered(rows)
                done += 1
        except KeyboardInterrupt:
            code, keep.is_over = _INTERRUPTED, True
            _partial(f"{done} of {args.count} sweeps")
        if done:
            found = waits.found(asked.ports)
            lanes = _lanes(found[: args.most], asked) if args.lanes and not code else None
            _show(found, asked, args, lanes, is_partial=code > 0)
            if is_silent and not code:
                raise Unavailable(_SILENT)
    return code


def _partial(what: str) -> None:
    _say(f"partial: interrupted after {what}")


def _lanes(
    found: "Sequence[Waited]", asked: "Watched"
) -> dict[tuple[int, int], list[float] | None]:
    """Each lane's share, by the place of each port that waits; None if not told."""
    if asked.lanes is None:
        raise Unsupported("--lanes: the kernel's counter files do not tell lanes apart")
    shares: dict[tuple[int, int], list[float] | None] = {}
    for one in found:
        if one.fitf > 0:
            ticks = asked.lanes(one.port)
            total = sum(ticks) if ticks else 0
            told = [count / total for count in ticks] if ticks and total else None
            shares[one.port.place] = told
    return shares


def _top(args: argparse.Namespace) -> int:
    from weir.observe.infiniband import collect
    from weir.observe.infiniband.report import none_answered, waited

    if args.count is not None and args.count < 1:
        raise BadInput(f"--count {args.count}: one or more")
    output.is_the_work()
    with _asked(args) as asked:
        before: Rows | None = None
        is_silent = True
        count = None if args.count is None else args.count + 1
        ends = (asked.backend, asked.ports, count, args.every, asked.names)
        for rows in collect.sweeps(*ends, asked.renewed):
            if before is not None:
                if sys.stdout.isatty() and not args.json:
                    print("\x1b[H\x1b[2J", end="")
                _show(waited([before, rows], asked.ports), asked, args)
            before = rows
            is_silent &= none_answered(rows)
        if is_silent:
            raise Unavailable(_SILENT)
    return 0


def _serve(args: argparse.Namespace) -> int:
    from weir import listener
    from weir.observe.infiniband import collect, exporter
    from weir.observe.infiniband.report import waited

    with contextlib.ExitStack() as stack:
        # First, so that a wrong address is told before a large fabric has been looked at.
        taken = stack.enter_context(listener.listen(args.listen))
        asked = stack.enter_context(_asked(args))
        shown = exporter.Exporter(asked.label)
        stack.enter_context(exporter.served(shown, taken))
        host, port = taken.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
        told = output.json_line({"event": "listening", "url": url}) if args.json else url
        print(told, flush=True)
        before: Rows | None = None
        ends = (asked.backend, asked.ports, None, args.every, asked.names)
        for rows in collect.sweeps(*ends, asked.renewed):
            took_s = (asked.backend.now_ns() - int(rows["round_ns"][0])) / 1e9
            if before is not None:
                shown.show(waited([before, rows], asked.ports), took_s)
            before = rows
    return 0


def _show(
    found: "Sequence[Waited]",
    asked: "Watched",
    args: argparse.Namespace,
    lanes: dict[tuple[int, int], list[float] | None] | None = None,
    is_partial: bool | None = None,
) -> None:
    from weir.observe.infiniband.report import flags_told, gaps_told
    from weir.terminal import Column, Table, console

    told = flags_told(found)
    if args.json:
        for one in found:
            facts: dict[str, Any] = {"port": asked.label(one.port)}
            facts |= {"kind": one.kind, "way": one.way}
            facts |= {"lid": one.port.lid, "number": one.port.number}
            numbers = {"fitf": one.fitf, "lost_bps": one.lost_bps, "ticks": one.ticks}
            facts |= numbers
            if lanes is not None:
                facts["lanes"] = lanes.get(one.port.place)
            facts |= {"reason": one.reason, "gaps": one.gaps}
            if is_partial is not None:
                facts["partial"] = is_partial
            print(output.json_line(facts), flush=True)
        return
    # How long a port waited is what was asked for: a narrow terminal leaves out all else before.
    figures = [Column("waited", right=True), Column("lost", right=True, rank=2)]
    kinds = [] if asked.names is None else [Column("kind", rank=4), Column("way", rank=3)]
    table = Table("port", *kinds, *figures, *([] if lanes is None else [Column("lanes", rank=5)]))
    shown = [one for one in found if not math.isnan(one.fitf)][: _most(args)]
    for one in shown:
        lost = "" if math.isnan(one.lost_bps) else rate(one.lost_bps)
        row = [asked.label(one.port), *(one.kind, one.way)[: len(kinds)], _percent(one.fitf), lost]
        if lanes is not None:
            shares = lanes.get(one.port.place) or []
            row.append(", ".join(f"{n}: {percent(s)}" for n, s in enumerate(shares) if s))
        table.add_row(*row)
    if shown:
        console().print(table)
    counted = sum(not math.isnan(one.fitf) for one in found)
    some = sum(one.fitf > 0 for one in found)
    print(f"{len(found)} ports: {some} waited, {counted - some} did not", end="")
    print("".join(f"; {count} {reason}" for reason, count in told.items()), end="")
    gaps = gaps_told(found).items()
    print("".join(f"; {count} not all the time: {why}" for why, count in gaps), end="")
    print("; partial" if is_partial else "", flush=True)


def _most(args: argparse.Namespace) -> int:
    """How many ports are shown: those that wait most have to stay on a terminal."""
    if args.action is not _top or not sys.stdout.isatty():
        return int(args.most)
    with contextlib.suppress(OSError):
        lines = os.get_terminal_size(sys.stdout.fileno()).lines
        if lines:
            return min(int(args.most), max(1, lines - _LINES_AROUND))
    return int(args.most)


def _rounds(args: argparse.Namespace) -> int:
    from weir.observe.infiniband import collect
    from weir.observe.infiniband.report import none_answered

    how = collect.Rounds(args.queries, args.gap, args.window)
    if not 1 <= args.instance <= args.instances:
        raise BadInput(f"--instance {args.instance}: 1 to {args.instances}")
    done, code, is_silent = 0, 0, True
    with _asked(args) as asked, _kept(args.out) as keep:
        lids = sorted({port.lid for port in asked.ports})
        ours = set(collect.disjoint(lids, args.instances)[args.instance - 1])
        ports = [port for port in asked.ports if port.lid in ours]
        seed = args.seed * args.instances + args.instance
        try:
            for rows in collect.random_rounds(asked.backend, ports, seed, how, asked.names):
                keep(rows)
                done += 1
                is_silent &= none_answered(rows)
        except KeyboardInterrupt:
            code, keep.is_over = _INTERRUPTED, True
            _partial(f"{done} rounds, which are kept")
    facts = {"event": "done", "rounds": done, "queries": done * args.queries, "partial": code > 0}
    print(output.json_line(facts) if args.json else f"{done} rounds of {args.queries} queries")
    if done and is_silent and not code:
        raise Unavailable(_SILENT)
    return code


def _classify(args: argparse.Namespace) -> int:
    from weir.observe.infiniband import dump, roles
    from weir.terminal import Column, Table, console

    if (args.records is None) != (args.out is None):
        raise BadInput("--records and --out go together: what to complete, and where to")
    if args.records is None:
        output.is_the_work()
    elif _is_same(args.records, args.out):
        raise BadInput(f"--out {args.out} is --records itself: what was measured is kept as it is")
    fabric = dump.load(args.dump)
    found = roles.classified(fabric, args.subsystems)
    if args.records is not None:
        _complete(fabric, found, args)
    kinds: dict[str, int] = {}
    for node in dump.switches(fabric):
        kinds[found.kind[node.id]] = kinds.get(found.kind[node.id], 0) + 1
    categories = found.categories()
    if args.json:
        for (kind, way), ports in sorted(categories.items()):
            facts = {"kind": kind, "way": way, "switches": kinds[kind], "ports": ports}
            print(output.json_line(facts))
        return 0
    right = (Column(name, right=True) for name in ("switches", "ports up", "ports down"))
    table = Table("kind", *right)
    for kind, count in kinds.items():
        ways = (categories.get((kind, way), 0) for way in (roles.UP, roles.DOWN))
        table.add_row(printable(kind), str(count), *(str(ports or "") for ports in ways))
    console().print(table)
    return 0


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return False


def _complete(fabric: "Fabric", found: Any, args: argparse.Namespace) -> None:
    from weir.observe.infiniband import records, report
    from weir.observe.infiniband.asking import Names

    names = Names(fabric, found)
    with _kept(args.out, grows=False) as keep:
        for rows in records.read(args.records, told_cut=_cut):
            keep(report.named(rows, names))


def _cut(why: str) -> None:
    print(f"weir: partial: {printable(why)}", file=sys.stderr, flush=True)


def _analyse(args: argparse.Namespace) -> int:
    from weir.observe.infiniband import dump, records, report, roles, statistics
    from weir.observe.infiniband.asking import Names

    names = None
    if args.fabric:
        fabric = dump.load(args.fabric)
        names = Names(fabric, roles.classified(fabric, args.subsystems))
    if args.tick_ns is not None and not 0 < args.tick_ns <= _TICK_NS_MAX:
        raise BadInput(f"--tick-ns {args.tick_ns:g}: more than 0, and up to {_TICK_NS_MAX:.0f}")
    output.is_the_work()

    def pieces() -> "Iterator[Rows]":
        for path in args.records:
            for rows in records.read(path, told_cut=told):
                yield report.named(rows, names) if names else rows

    cuts = []

    def told(why: str) -> None:
        cuts.append(why)
        _cut(why)

    tallies = statistics.tallied(pieces(), args.tick_ns)
    if args.json:
        for category, tally in sorted(tallies.items()):
            facts = report.facts(category, tally) | {"partial": bool(cuts)}
            print(output.json_line(facts))
        return 0
    from weir.terminal import console

    console().print(report.table(tallies))
    return 0


def _plan(args: argparse.Namespace) -> int:
    from weir import files
    from weir.observe.infiniband import dump, plan

    said = ["A plan (000-spec 2.4), no fabric that was found"]
    text = dump.text_of(plan.cluster(plan.SMALL if args.small else plan.WORKS), said)
    if args.out is None:
        output.is_the_work()
        print(text, end="")
        return 0
    try:
        with files.whole(args.out) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--out {args.out}: {error.strerror}") from None
    return 0


class _Keep:
    """Where rows go: a CSV file, or nowhere.

    Attributes:
        is_over: nothing more is to come, and a pipe's reader who takes nothing is not waited for.
    """

    is_over = False

    def __init__(self) -> None:
        self._write: Callable[[Rows], None] | None = None

    def __call__(self, rows: "Rows") -> None:
        """Keeps rows."""
        if self._write:
            self._write(rows)

    def to(self, stream: TextIO) -> "_Keep":
        """Keeps them there from now on."""
        from weir.observe.infiniband.records import Writer

        self._write = Writer(stream).write
        return self


@contextlib.contextmanager
def _kept(path: Path | None, *, grows: bool = True) -> "Iterator[_Keep]":
    """Where rows go: a file that is read while it grows, or one that is there when it is whole."""
    from weir.files import whole, written

    keep = _Keep()
    if path is None:
        yield keep
        return
    kept = "; what was written before that is kept"
    with contextlib.ExitStack() as stack:
        try:
            place = path if grows else stack.enter_context(whole(path))
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            raw = written(os.open(place, flags, 0o666), lambda: keep.is_over)
        except OSError as error:
            raise BadInput(f"--out {path}: {error.strerror}") from None
        try:
            with io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", newline="") as stream:
                yield keep.to(stream)
        except OSError as error:
            kind = Unavailable if isinstance(error, TimeoutError) else BadInput
            said = f"{error.strerror}{kept if grows else ''}"
            raise kind(f"--out {path}: {said}") from None


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %" if 0 < share < 0.01 else percent(share)
