"""`weir observe desktop`: how late a desktop is on its screen, told by its packets; opinions."""

import argparse
import itertools
import os
import signal
import sys
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir import Rate, signals
from weir.cli import output
from weir.cli.parser import option
from weir.errors import BadInput
from weir.numbers import number
from weir.printable import printable
from weir.terminal import Column, Table, console

if TYPE_CHECKING:
    from weir.observe.desktop.capture import Capture
    from weir.observe.desktop.dut import Rule, Update, Which

_EPILOG = """\
What is measured, and how: docs/desktop.md.

exit codes: 0 done; 2 a wrong argument or file; 3 this machine cannot."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands."""
    parser.epilog = _EPILOG
    commands = parser.add_subparsers(metavar="WHAT", required=True)
    _configure_dut(commands)
    _configure_calibrate(commands)
    _configure_record(commands)
    _configure_mark(commands)
    _configure_video(commands)
    _configure_speech(commands)
    _configure_ratings(commands)
    _configure_collect(commands)
    _configure_capacity(commands)


def _command(commands: Any, name: str, summary: str, act: Any) -> Any:
    command = commands.add_parser(name, help=summary)
    command.add_argument("--json", action="store_true", help="JSON instead of a table")
    command.set_defaults(action=act)
    return command


def _ends(command: Any) -> None:
    command.add_argument("--server", metavar="ADDR", help="the desktop's (who sends most)")
    command.add_argument("--client", metavar="ADDR", help="the screen's (who is sent most)")
    command.add_argument("--port", type=int, metavar="N", help="the server's (all)")
    command.add_argument(
        "--marker-port",
        type=int,
        metavar="N",
        default=5300,
        help="that markers go to (%(default)s)",
    )


# --- dut ---


def _configure_dut(commands: Any) -> None:
    command = _command(commands, "dut", "when each task's display update ended (VD-DUT)", _dut)
    command.add_argument("capture", type=Path, metavar="FILE", help="pcap or pcapng")
    _ends(command)
    command.add_argument("--tasks", type=Path, metavar="FILE", help="CSV: begin_s, label, end_s")
    command.add_argument(
        "--size", type=int, default=110, metavar="BYTES", help="updates are larger (%(default)s)"
    )
    command.add_argument(
        "--gap", default="0.5", metavar="S", help="a longer pause ends an update (%(default)s)"
    )
    command.add_argument(
        "--line",
        default="1 Gbit/s",
        metavar="RATE",
        help="what the client's line has (%(default)s)",
    )


def _dut(args: argparse.Namespace) -> int:
    from weir.observe.desktop import dut, mark

    output.is_the_work()
    rule = dut.Rule(args.size, round(number("--gap", args.gap) * 10**9))
    line_bps, which = _line_bps(args.line), _which(args)
    done = mark.load(args.tasks) if args.tasks else None
    file, (server, client), found = dut.of_file(args.capture, which, rule, done)
    if args.json:
        print(output.json_line(_dut_json(file, (str(server), str(client)), rule, found, line_bps)))
    else:
        _print_dut(file, f"{server} to {client}", rule, found, line_bps)
    return 0


def _line_bps(text: str) -> float:
    rate = float(option(Rate, text, "--line").bit_per_s)
    if rate <= 0:
        raise BadInput(f"--line {text}: a line has a rate")
    return rate


def _which(args: argparse.Namespace) -> "Which":
    """Whose packets count, as told."""
    from weir.observe.desktop.dut import Which

    if (args.server is None) != (args.client is None):
        raise BadInput("--server and --client go together")
    if args.server is None:
        return Which(None, args.port, args.marker_port)
    try:
        ends = ip_address(args.server), ip_address(args.client)
    except ValueError as error:
        raise BadInput(str(error)) from None
    return Which(ends, args.port, args.marker_port)


def _dut_json(
    file: "Capture",
    ends: tuple[str, str],
    rule: "Rule",
    found: "Sequence[Update]",
    line_bps: float,
) -> dict[str, Any]:
    from weir.observe.desktop import dut

    return {
        "server": ends[0],
        "client": ends[1],
        "size_bytes": rule.size,
        "gap_s": rule.gap_ns / 1e9,
        "partial": file.cut or None,
        "warnings": _doubts(file, found, line_bps),
        "geometric_mean_dut_s": dut.geometric_mean(found),
        "updates": [_update_json(one, line_bps) for one in found],
    }


def _doubts(file: "Capture", found: "Sequence[Update]", line_bps: float) -> list[str]:
    """What speaks against the figures."""
    from weir.format import rate
    from weir.observe.desktop import dut

    doubts = list(file.warnings)
    if beyond := sum(dut.is_beyond(one, line_bps) for one in found):
        told = f"{beyond} of {len(found)} updates came faster than {rate(line_bps)} carries them"
        doubts.append(f"{told}: is that the line's rate, and the capture from behind it?")
    times = [(one.server_s, one.dut_s) for one in found]
    late = sum(server is not None and end is not None and server > end for server, end in times)
    if late:
        told = f"{late} of {len(found)} tasks were taken for done after their updates' last packets"
        doubts.append(f"{told}: does the script wait too long, or is GAP too short?")
    return doubts


def _update_json(one: "Update", line_bps: float) -> dict[str, Any]:
    from weir.observe.desktop import dut

    parts = dut.parts(one, line_bps)
    return {
        "label": one.task.label,
        "begin_s": one.task.begin_ns / 1e9,
        "dut_s": one.dut_s,
        "fresh_dut_s": one.fresh_dut_s,
        "server_s": one.server_s,
        "packets": one.packets,
        "bytes": one.bytes,
        "transmission_s": parts and parts.transmission,
        "rest_s": parts and parts.rest,
        "partial": one.partial or None,
    }


def _print_dut(
    file: "Capture", ends: str, rule: "Rule", found: "Sequence[Update]", line_bps: float
) -> None:
    from weir.format import size
    from weir.observe.desktop import dut

    titles = ("VD-DUT", "without repeats", "server", "line", "rest", "bytes")
    table = Table("task", *(Column(one, right=True) for one in titles), Column("", folds=True))
    for number_, one in enumerate(found, 1):
        parts = dut.parts(one, line_bps)
        table.add_row(
            one.task.label or str(number_),
            _seconds(one.dut_s),
            _seconds(one.fresh_dut_s),
            _seconds(one.server_s),
            _seconds(parts.transmission if parts else None),
            _seconds(parts.rest if parts else None),
            size(one.bytes),
            f"partial: {one.partial}" if one.partial else "",
        )
    if file.cut:
        print(f"partial: {file.cut}; what came before it is shown")
    for doubt in _doubts(file, found, line_bps):
        print(f"note: {doubt}")
    print(f"{ends}, packets above {rule.size} bytes, pauses up to {rule.gap_ns / 1e9:g} s")
    console().print(table)
    mean = dut.geometric_mean(found)
    print("no task changed the display" if mean is None else f"geometric mean: {mean:.3f} s")


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f} s"


# --- calibrate ---


def _configure_calibrate(commands: Any) -> None:
    summary = "SIZE and GAP of a desktop, from a capture while nobody does anything"
    command = _command(commands, "calibrate", summary, _calibrate)
    command.add_argument("idle", type=Path, metavar="IDLE", help="pcap or pcapng, ten minutes")
    command.add_argument(
        "--updates", type=Path, metavar="FILE", help="a capture of tasks, at the worst loss"
    )
    _ends(command)


def _calibrate(args: argparse.Namespace) -> int:
    from weir.observe.desktop import calibrate

    output.is_the_work()
    found, read = calibrate.of_files(args.idle, args.updates, _which(args))
    doubts = [f"partial: {file.cut}" for file in read if file.cut]
    doubts += [one for file in read for one in file.warnings] + list(found.warnings)
    if args.json:
        print(output.json_line(_calibration_json(found) | {"warnings": doubts}))
        return 0
    print(f"--size {found.rule.size} --gap {found.rule.gap_ns / 1e9:g}")
    print(
        f"{found.idle_packets} packets in {found.idle_s:.0f} idle s, {found.strays} of them larger "
        f"than {found.rule.size} bytes, in {found.bursts} bursts"
    )
    if found.most_gap_s is not None:
        print(f"a pause of more than {found.most_gap_s:.2f} s would catch too many of these")
    if found.pauses_s:
        print(f"longest pause within an update: {found.pauses_s[-1]:.3f} s")
    for doubt in doubts:
        print(f"note: {doubt}")
    return 0


def _calibration_json(found: Any) -> dict[str, Any]:
    return {
        "size_bytes": found.rule.size,
        "gap_s": found.rule.gap_ns / 1e9,
        "idle_s": found.idle_s,
        "idle_packets": found.idle_packets,
        "strays": found.strays,
        "bursts": found.bursts,
        "most_gap_s": found.most_gap_s,
        "longest_pause_s": found.pauses_s[-1] if found.pauses_s else None,
    }


# --- record and mark ---


def _configure_record(commands: Any) -> None:
    summary = "capture the headers that pass an interface, until Ctrl-C"
    command = _command(commands, "record", summary, _record)
    command.add_argument("interface", metavar="INTERFACE", help="such as eth0")
    command.add_argument("--out", type=Path, required=True, metavar="FILE", help="pcap to write")
    command.add_argument("--seconds", metavar="S", help="how long (until Ctrl-C)")


def _record(args: argparse.Namespace) -> int:
    import time

    from weir.observe.desktop import live

    seconds = None if args.seconds is None else float(number("--seconds", args.seconds))
    begin_s = time.monotonic()
    with signals.awaited():

        def is_over() -> bool:
            is_late = seconds is not None and time.monotonic() - begin_s >= seconds
            return is_late or bool(signal.sigpending() & {signal.SIGINT, signal.SIGTERM})

        count = live.record(args.interface, args.out, is_over)
    told = {"file": str(args.out), "packets": count}
    # A capture that goes to the standard output is not to end with words.
    stream = sys.stderr if _is_standard_output(args.out) else sys.stdout
    shown = f"{printable(str(args.out))}: {count} packets"
    print(output.json_line(told) if args.json else shown, file=stream)
    return 0


def _is_standard_output(path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # there is none, or none that is a file
        return False


def _configure_mark(commands: Any) -> None:
    summary = "send a marker packet: a task begins, or ends"
    command = _command(commands, "mark", summary, _mark)
    command.add_argument("what", choices=("start", "end"), help="what the task does")
    command.add_argument("host", metavar="HOST", help="one that is reached through the tap")
    command.add_argument("label", nargs="?", default="", metavar="LABEL", help="the task's name")
    command.add_argument(
        "--marker-port", type=int, metavar="N", default=5300, help="to which (%(default)s)"
    )


def _mark(args: argparse.Namespace) -> int:
    from weir.observe.desktop import mark

    mark.send(args.host, args.what == "end", args.label, args.marker_port)
    if args.json:
        print(output.json_line({"marked": args.what, "label": args.label}))
    return 0


# --- video and speech ---


def _configure_video(commands: Any) -> None:
    summary = "how much of a clip arrived in its time, against slow motion (slow-mo-VQ)"
    command = _command(commands, "video", summary, _video)
    command.add_argument("normal", type=Path, metavar="NORMAL", help="capture at the clip's rate")
    command.add_argument("slow", type=Path, metavar="SLOW", help="capture in slow motion, no loss")
    command.add_argument("--fps", required=True, metavar="HZ", help="the clip's frame rate")
    command.add_argument(
        "--slow-fps", default="1", metavar="HZ", help="in slow motion (%(default)s)"
    )
    _ends(command)


def _video(args: argparse.Namespace) -> int:
    from weir.observe.desktop import video

    output.is_the_work()
    (about, ends, normal), (slow_about, slow_ends, slow) = (
        video.of_file(file, _which(args), float(number(name, fps)))
        for file, name, fps in (
            (args.normal, "--fps", args.fps),
            (args.slow, "--slow-fps", args.slow_fps),
        )
    )
    quality = video.slow_motion_quality(normal, slow)
    read = (about, slow_about)
    doubts = [f"partial: {file.name}: {file.cut}" for file in read if file.cut]
    doubts += [one for file in read for one in file.warnings]
    if ends != slow_ends:
        told = " and ".join(f"what {one} sent to {other}" for one, other in (ends, slow_ends))
        doubts.append(f"compared are {told}: give --server and --client if one is not the desktop")
    if args.json:
        both = {"normal_bytes": normal.bytes, "slow_bytes": slow.bytes}
        print(output.json_line({"slow_motion_quality": quality, **both, "warnings": doubts}))
        return 0
    for doubt in doubts:
        print(f"note: {doubt}")
    print(f"slow-motion video quality: {quality:.3f}")
    return 0


def _configure_speech(commands: Any) -> None:
    summary = "what became of speech in a call: WSS, LLR, and a similarity like ViSQOL's"
    command = _command(commands, "speech", summary, _speech)
    command.add_argument("clean", type=Path, metavar="CLEAN", help="WAV of what was said")
    command.add_argument("heard", type=Path, metavar="HEARD", help="WAV of what was heard")


def _speech(args: argparse.Namespace) -> int:
    from weir.observe.desktop import speech

    output.is_the_work()
    (clean, rate), (heard, other) = speech.load(args.clean), speech.load(args.heard)
    if rate != other:
        raise BadInput(f"{args.clean} has {rate} samples a second, {args.heard} {other}")
    found = speech.quality(clean, heard, rate)
    if args.json:
        told = {"wss": found.wss, "llr": found.llr, "nsim": found.nsim, "score": found.score}
        print(output.json_line(told))
    else:
        print(f"WSS {found.wss:.2f}, LLR {found.llr:.3f} (distances, 0 for the same)")
        print(f"NSIM {found.nsim:.3f}, score {found.score:.2f} of 5")
    return 0


# --- ratings ---


def _configure_ratings(commands: Any) -> None:
    summary = "mean opinions, tests between losses, a mixed model, slopes"
    command = _command(commands, "ratings", summary, _ratings)
    command.add_argument(
        "ratings", type=Path, metavar="FILE", help="CSV: subject, activity, loss_percent, rating"
    )
    command.add_argument("--welch", action="store_true", help="variances may differ in t-tests")


def _ratings(args: argparse.Namespace) -> int:
    from weir.observe.desktop import ratings

    output.is_the_work()
    loaded = ratings.load(args.ratings)
    activities = list(dict.fromkeys(one.activity for one in loaded))
    found = {}
    for activity in activities:
        try:
            found[activity] = _study(ratings.of(loaded, activity), not args.welch)
        except BadInput as error:
            raise BadInput(f"{args.ratings}: {activity}: {error}") from None
    if args.json:
        print(output.json_line(found))
        return 0
    for activity, study in found.items():
        _print_study(activity, study)
    return 0


def _study(one: Any, pooled: bool) -> dict[str, Any]:
    from weir.observe.desktop import ratings

    line = ratings.opinion_slope(one)
    tests, honest = ratings.t_tests(one, pooled), ratings.honest_differences(one)
    return {
        "mean_opinions": {
            f"{loss:g}": {"mean": mean, "margin": margin}
            for loss, (mean, margin) in ratings.mean_opinions(one).items()
        },
        "pairs": [
            {
                "pair": list(test.pair),
                "t_test_p": test.p,
                "difference": tukey.estimate,
                "low": tukey.low,
                "high": tukey.high,
                "honest_p": tukey.p,
            }
            for test, tukey in zip(tests, honest, strict=True)
        ],
        "slope_per_percent": line.estimate,
        "slope_error": line.error,
    }


def _print_study(activity: str, study: dict[str, Any]) -> None:
    print(activity)
    table = Table("loss", Column("mean opinion", right=True))
    for loss, one in study["mean_opinions"].items():
        table.add_row(f"{loss} %", f"{one['mean']:.2f} ± {one['margin']:.2f}")
    console().print(table)
    titles = ("p, t-test", "difference", "95 % of all", "p, honest")
    pairs = Table("pair", *(Column(one, right=True) for one in titles))
    for one in study["pairs"]:
        low, high = one["pair"]
        pairs.add_row(
            f"{low:g} and {high:g} %",
            f"{one['t_test_p']:.2e}",
            f"{one['difference']:+.2f}",
            f"{one['low']:+.2f} to {one['high']:+.2f}",
            f"{one['honest_p']:.4f}",
        )
    console().print(pairs)
    slope, error = study["slope_per_percent"], study["slope_error"]
    print(f"slope: {slope:+.4f} ± {error:.4f} (standard error) per percent of loss\n")


def _configure_collect(commands: Any) -> None:
    summary = "serve a form on which people rate what they have just seen, until Ctrl-C"
    command = _command(commands, "collect", summary, _collect)
    command.add_argument("--out", type=Path, required=True, metavar="FILE", help="CSV to add to")
    command.add_argument(
        "--condition",
        action="append",
        required=True,
        metavar="NAME=PERCENT",
        help="a loss, by the name that the form's address has (again and again)",
    )
    command.add_argument(
        "--listen", default="127.0.0.1:8480", metavar="ADDR:PORT", help="where to serve it"
    )


def _collect(args: argparse.Namespace) -> int:
    import uvicorn

    from weir import descriptors, listener
    from weir.calendar.rest.connections import Crowd, connections_of
    from weir.observe.desktop import collector

    app = collector.app(args.out, collector.conditions_of(args.condition))
    with listener.listen(args.listen) as taken:
        host, port = taken.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        address = f"{url}/rate?subject=1&activity=images&condition=NAME&iteration=1"
        facts = {"event": "listening", "url": url}
        print(output.json_line(facts) if args.json else f"open {address}", flush=True)
        # Those who rate come by a network on which others are, too.
        bounded = connections_of(Crowd(descriptors.raise_limit()))
        config = uvicorn.Config(app, http=bounded, log_level="warning")
        uvicorn.Server(config).run(sockets=[taken])
    return 0


# --- capacity ---


def _configure_capacity(commands: Any) -> None:
    summary = "how many desktops a server and a line carry, worked out from one's updates"
    command = _command(commands, "capacity", summary, _capacity)
    command.add_argument(
        "--server", required=True, metavar="S", help="a processor's time for an update, in s"
    )
    command.add_argument("--bytes", required=True, metavar="SIZE", help="an update's")
    command.add_argument("--line", required=True, metavar="RATE", help="what all share")
    command.add_argument(
        "--waiting",
        default="0",
        metavar="S",
        help="beside both: round trips and such (%(default)s)",
    )
    command.add_argument(
        "--think", default="20", metavar="S", help="from an update to the next (%(default)s)"
    )
    command.add_argument(
        "--processors", type=int, default=1, metavar="N", help="the server's (%(default)s)"
    )
    command.add_argument(
        "--limit", default="1", metavar="S", help="what VD-DUT may be in the mean (%(default)s)"
    )


def _capacity(args: argparse.Namespace) -> int:
    from weir import Bytes
    from weir.observe.desktop.capacity import MOST_COUNTED, Demand, most

    output.is_the_work()
    line_bps = _line_bps(args.line)
    demand = Demand(
        float(number("--server", args.server)),
        8 * option(Bytes, args.bytes, "--bytes").count / line_bps,
        float(number("--waiting", args.waiting)),
        float(number("--think", args.think)),
        args.processors,
    )
    limit_s = float(number("--limit", args.limit))
    count = most(demand, limit_s)
    shown = _some_loads(demand, count)
    if args.json:
        loads = [
            {
                "desktops": one.desktops,
                "dut_s": one.dut,
                "server_share": one.server,
                "line_share": one.line,
            }
            for one in shown
        ]
        print(output.json_line({"limit_s": limit_s, "most_desktops": count, "loads": loads}))
        return 0
    titles = ("VD-DUT", "server", "line")
    table = Table(Column("desktops", right=True), *(Column(one, right=True) for one in titles))
    for one in shown:
        shares = (f"{100 * share:.0f} %" for share in (one.server, one.line))
        table.add_row(str(one.desktops), _seconds(one.dut), *shares)
    console().print(table)
    print(f"up to {count} desktops have VD-DUT within {limit_s:.3f} s in the mean")
    if count == MOST_COUNTED:
        print("note: more were not counted")
    return 0


def _some_loads(demand: Any, count: int) -> list[Any]:
    """One, two, four and so on to twice as many as can be, and `count` itself."""
    from weir.observe.desktop.capacity import loads

    ends = 2 * max(count, 1)
    return [
        one
        for one in itertools.islice(loads(demand), ends)
        if one.desktops in (count, ends) or one.desktops & (one.desktops - 1) == 0
    ]
