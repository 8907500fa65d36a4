"""`weir send`: files and directories to a server."""

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from weir import kernel_controls
from weir._core import Bytes, Rate, Time
from weir.cli.parser import option
from weir.cli.transfers import UNPACED, add_options, carry_out, check_direction, choices
from weir.congestion import options
from weir.congestion.cycle.lazily import LazySelection
from weir.errors import BadInput, WeirError
from weir.printable import printable
from weir.transfer import PAUSED, YIELDING, Route, Spare, Transfer

if TYPE_CHECKING:
    from weir.congestion.cycle.cycle import Selection
    from weir.congestion.cycle.samples import Samples


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument("source", nargs="+", help="file or directory; DIR/ sends DIR's content")
    parser.add_argument(
        "destination",
        help="HOST:PORT/REMOTE/PATH; HOST:PORT,HOST:PORT/REMOTE/PATH where several hosts that "
        "share its file system receive large files together",
    )
    add_options(parser)
    parser.add_argument(
        "--route",
        action="append",
        default=[],
        metavar="PORT=R",
        help="a port of the receiver with a rate of its own, instead of --rate; several divide "
        "the transfer over as many paths as the network gives them (weir serve --ports)",
    )
    _add_spare(parser)
    auto = parser.add_argument_group(
        "with --cca auto",
        "the control is chosen that suits whoever is on the path, which is probed for some seconds "
        "unless nobody is",
    )
    _add_request(auto)
    auto.add_argument(
        "--fairness",
        type=float,
        metavar="F",
        help="weight of Jain's index against one's own goodput, 0 to 1 "
        f"(default {options.FAIRNESS})",
    )
    auto.add_argument(
        "--steady",
        metavar="TIME",
        help='how long a choice stands, "0 s" for ever (default: until the background changes)',
    )
    auto.add_argument(
        "--fallback",
        metavar="NAME",
        help="control in doubt (default: this host's default, but CUBIC in place of BBR)",
    )
    auto.add_argument(
        "--ops-log", metavar="FILE", help="append what was chosen and why, as JSON lines"
    )
    auto.add_argument("--ops-label", metavar="TEXT", help="text for each line of that log")


def _add_spare(parser: argparse.ArgumentParser) -> None:
    """Adds the options of connections of a lower class; `_spare` reads them."""
    spare = parser.add_argument_group(
        "with --spare", "further connections carry what the path has left beside --rate"
    )
    spare.add_argument(
        "--spare", metavar="CLASS", help="their class: le (DSCP 1, RFC 8622) or cs1 (DSCP 8)"
    )
    spare.add_argument("--spare-streams", type=int, metavar="N", help="how many (default 1)")
    spare.add_argument("--spare-rate", metavar="R", help="bound of all of them (default none)")
    spare.add_argument(
        "--spare-packet",
        metavar="SIZE",
        help="their largest packet (default what the path carries)",
    )
    spare.add_argument(
        "--spare-cca",
        metavar="NAME",
        help="their congestion control; ledbat yields where routers do not know the class",
    )


def _spare(args: argparse.Namespace) -> Spare | None:
    """The spare connections that were asked for."""
    if args.spare is None:
        for name in ("spare_streams", "spare_rate", "spare_cca", "spare_packet"):
            if getattr(args, name) is not None:
                raise BadInput(f"--{name.replace('_', '-')} is for --spare le or --spare cs1")
        return None
    if args.rate == UNPACED and not args.route:
        raise BadInput("--spare is for what is left beside --rate: say the rate")
    if args.cca == options.AUTO:
        raise BadInput("--spare and --cca auto do not go together: a path is probed in silence")
    if args.spare_cca not in {None, YIELDING}:
        kernel_controls.require(args.spare_cca)
    return Spare(
        args.spare,
        1 if args.spare_streams is None else args.spare_streams,
        None if args.spare_rate is None else option(Rate, args.spare_rate, "--spare-rate"),
        args.spare_cca,
        None if args.spare_packet is None else option(Bytes, args.spare_packet, "--spare-packet"),
    )


def _check_several(args: argparse.Namespace) -> None:
    """Refuses what does not go with several receiving hosts."""
    if "," in _hosts(args.destination) and options.AUTO in (args.cca, args.streams):
        raise BadInput(
            "several receiving hosts do not go with --cca auto or --streams auto: one path is "
            "measured"
        )


def _routes(args: argparse.Namespace) -> list[Route]:
    """The routes that were asked for."""
    if args.route and args.rate != UNPACED:
        raise BadInput("either --rate, or --route with a rate for each port")
    if args.route and args.cca == options.AUTO:
        raise BadInput("--route and --cca auto do not go together: one path is probed")
    return [_route(text) for text in args.route]


def _route(text: str) -> Route:
    # Only here: who sends over one path need not wait for it.
    from weir.listener import port_of

    named, equals, rate = text.partition("=")
    port = port_of(named)
    if not port or not equals:
        raise BadInput(f'--route "{text}" is not PORT=RATE')
    return Route(port, option(Rate, rate, "--route"))


def _add_request(parser: argparse._ArgumentGroup) -> None:
    """Adds the options of `--cca auto`, each named as the attribute of `Request` that it sets."""
    parser.add_argument(
        "--probe",
        metavar="HOW",
        help="passive (default), without sending, or active, with the file in bursts",
    )
    parser.add_argument(
        "--pattern",
        metavar="PATTERN",
        help=f"pattern of active probing (default {options.PATTERN})",
    )
    parser.add_argument(
        "--classifier", metavar="NAME", help="weir, or the work's k-nn, which active probing has"
    )
    parser.add_argument(
        "--neighbours", type=int, metavar="K", help="k of the k-nn classifier (default 1)"
    )
    parser.add_argument(
        "--band",
        type=int,
        metavar="S",
        help=f"warping window of k-nn, in s (default {options.BAND_S})",
    )
    parser.add_argument(
        "--window",
        metavar="TIME",
        help="how long a window k-nn looks at (the pattern's length, or 20 s)",
    )
    parser.add_argument(
        "--recordings", metavar="FILE", help="file that k-nn learns from (weir ops collect)"
    )
    parser.add_argument(
        "--rule", metavar="NAME", help="worth, or the work's tree (default with k-nn)"
    )
    parser.add_argument(
        "--udp", type=int, metavar="PORT", help="probe by UDP to a weir probe --serve there"
    )


def _tell_of_links(sources: list[str]) -> None:
    """Says of links that they are sent as such: whoever names one often means its file."""
    for source in sources:
        if not source.endswith("/") and Path(source).is_symlink():
            what = f'"{printable(source)}" is a symbolic link, and sent as one'
            print(f"weir: {what}; --copy-links sends what it leads to", file=sys.stderr)


def run(args: argparse.Namespace) -> int:
    """Sends; the exit code is that of `weir.errors`."""
    check_direction(args.source, [args.destination], "get")
    chosen = choices(args) | {"spare": _spare(args), "routes": _routes(args)}
    _check_several(args)
    if args.fairness is not None:
        options.check_fairness(args.fairness)
    if not args.copy_links and not args.json:
        _tell_of_links(args.source)
    if args.cca == options.AUTO:
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(_opened(args.ops_log)) if args.ops_log else None
            return _select(args, chosen, log, None)
    for name in ("fairness", "steady", "fallback", "ops_log", "ops_label", *options.NAMES):
        if getattr(args, name) is not None:
            raise BadInput(f"--{name.replace('_', '-')} is for --cca auto")
    if args.cca not in (None, options.HOST):
        kernel_controls.require(args.cca)
    unasked = _left_to_us(args)
    if args.streams == options.AUTO or unasked:
        return _select(args, chosen, None, unasked)
    return carry_out(Transfer.send(args.source, args.destination, **chosen), args, "sent")


def _left_to_us(args: argparse.Namespace) -> str | None:
    """This host's control, where nothing was said of controls, streams and pace; else None.

    That is neither by a user nor by the host's owner.
    """
    if args.cca is not None or args.spare is not None or "," in _hosts(args.destination):
        return None
    try:
        usual = kernel_controls.default()
    except WeirError:
        return None
    is_free = usual in options.LEFT_TO_US and _reads_path(args, options.Request())
    return usual if is_free else None


@contextlib.contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    try:
        log = Path(path).open("a")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    try:
        yield log
    finally:
        with contextlib.suppress(OSError):  # told when it was written, and no fault of the files'
            log.close()


def _reads_path(args: argparse.Namespace, asked: options.Request) -> bool:
    """Whether its own stream shows what the path does: one, free to send all that that takes."""
    is_free = args.rate == UNPACED and not args.route and args.steady is None
    is_free = is_free and args.streams in {1, options.AUTO}
    return is_free and not asked.is_active and asked.how_chosen == "worth"


def _hosts(destination: str) -> str:
    """`HOST:PORT` of `HOST:PORT/PATH`, or several."""
    return destination.partition("/")[0]


def _select(
    args: argparse.Namespace, chosen: dict[str, Any], log: TextIO | None, unasked: str | None
) -> int:
    """Sends with a congestion control, or a number of streams, that is chosen on the way.

    `unasked` is the control that this host has where nobody asked for a choice.
    """
    asked = options.Request(**{name: getattr(args, name) for name in options.NAMES})
    fairness = options.FAIRNESS if args.fairness is None else args.fairness
    steady_s = None if args.steady is None else option(Time, args.steady, "--steady").ns / 1e9
    at_once = _reads_path(args, asked)
    if args.streams == options.AUTO and not at_once:
        raise BadInput(
            "--streams auto is chosen while one stream sends all it can: not with --rate, "
            "--steady, --pattern or --rule tree"
        )
    is_given = args.cca != options.AUTO and unasked is None
    given = chosen["congestion"] if is_given else args.fallback
    first = {**chosen, "congestion": given}
    if not at_once:
        first["rate"] = PAUSED  # until the path is probed
    transfer = Transfer.send(args.source, args.destination, **first)

    def selection(silent: "Samples | None") -> "Selection":
        # Only here: what goes at once need not wait for it.
        from weir.congestion.cycle.cycle import Selection
        from weir.congestion.cycle.settings import Settings
        from weir.congestion.recognisers import recogniser

        settings = Settings(
            fairness=fairness,
            steady_s=steady_s,
            rate=chosen["rate"],
            deadline=args.deadline,
            clock=args.clock,
            udp=asked.udp,
            pattern=asked.bursts,
            rule=asked.how_chosen,
            fallback=given,
            controls=(given or kernel_controls.default(),) if is_given else None,
            reads_path=at_once,
            silence=silent,
            log=log,
            label=args.ops_label or "",
        )
        return Selection(transfer, partial(recogniser, asked), settings)

    if at_once:
        companion = LazySelection(transfer, partial(_silence, args, asked), selection, unasked)
        return carry_out(transfer, args, "sent", companion)
    began = time.monotonic()
    # It is connected while the rest of the choice is loaded.
    transfer.start()
    return carry_out(transfer, args, "sent", selection(None), began)


def _silence(args: argparse.Namespace, asked: options.Request) -> "Samples":
    """Samples of the path to the receiver."""
    # Only here: what goes at once need not wait for it.
    from weir.congestion.cycle.samples import silence

    return silence(_hosts(args.destination).rpartition(":")[0].strip("[]"), asked.udp)
