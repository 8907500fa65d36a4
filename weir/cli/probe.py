"""`weir probe`: round-trip times of a path, and who answers them."""

import argparse
import json
from pathlib import Path

from weir import signals
from weir.cli import output
from weir.errors import BadInput
from weir.numbers import number

_EPILOG = """\
Figures and columns: docs/probe.md.

exit codes: 0 done; 2 a wrong argument or unknown host; 3 this machine cannot (see weir doctor);
5 our own connection broke off; 6 nothing answered."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("host", nargs="?", metavar="HOST", help="host to probe")
    parser.add_argument("--rate", default="1", metavar="HZ", help="samples a second, up to 100 (1)")
    parser.add_argument(
        "--requests", type=int, default=10, metavar="N", help="echo requests a sample (10)"
    )
    parser.add_argument(
        "--seconds", metavar="S", help="how long; 0 until Ctrl-C (20, or the pattern's length)"
    )
    parser.add_argument(
        "--timeout", default="1", metavar="S", help="a later reply counts as lost (1)"
    )
    parser.add_argument(
        "--udp", type=int, metavar="PORT", help="probe by UDP to a weir probe --serve"
    )
    parser.add_argument(
        "--active", metavar="PATTERN", help="send bursts meanwhile, such as C5-B5-C5-S5"
    )
    parser.add_argument(
        "--sink", type=int, metavar="PORT", help="where bursts go (that of --udp, or 7412)"
    )
    parser.add_argument("--file", metavar="FILE", help="bursts carry this file's bytes")
    parser.add_argument(
        "--offset", type=int, default=0, metavar="BYTE", help="where in the file to begin"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep samples: .csv or .parquet")
    parser.add_argument("--json", action="store_true", help="one JSON event per line")
    parser.add_argument(
        "--serve", type=int, metavar="PORT", help="answer UDP echoes and take bursts, until Ctrl-C"
    )


def run(args: argparse.Namespace) -> int:
    """Probes, or serves those who do."""
    if args.serve is not None:
        if args.host is not None:
            raise BadInput("either HOST, to probe it, or --serve PORT, to answer")
        return _serve(args.serve, args.json)
    if args.host is None:
        raise BadInput("whom to probe? Give a HOST, or --serve PORT to answer others")
    if args.out is None:
        output.is_the_work()
    # Only here, so that serving starts without them.
    from weir.probe.session import Choices, carry_out

    seconds = None if args.seconds is None else number("--seconds", args.seconds)
    choices = Choices(
        host=args.host,
        rate_hz=number("--rate", args.rate),
        requests=args.requests,
        seconds=seconds,
        timeout_s=number("--timeout", args.timeout),
        udp=args.udp,
        pattern=args.active,
        sink=args.sink,
        file=args.file,
        offset=args.offset,
        out=args.out,
        as_json=args.json,
    )
    return carry_out(choices)


def _serve(port: int, as_json: bool) -> int:
    from weir.probe.responder import Responder

    with signals.awaited() as until_ended, Responder(port) as responder:
        if as_json:
            print(json.dumps({"event": "listening", "port": responder.port}), flush=True)
        else:
            print(f"answering probes on port {responder.port}, UDP and TCP", flush=True)
        until_ended()
    return 0
