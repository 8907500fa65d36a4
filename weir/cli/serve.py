"""`weir serve`: receives and offers files under given roots."""

import argparse
import contextlib
import json
import queue
import sys
import threading
from datetime import datetime
from typing import Any

from weir import signals
from weir._core import Bytes, Time
from weir.cli.parser import option
from weir.errors import BadInput
from weir.transfer import DEFAULT_KEYS, Grant, Server, rights

_EPILOG = """\
Such as: weir serve --root incoming --listen 127.0.0.1:7411. It serves until Ctrl-C or a polite
kill, and then ends in order. Keys: weir keys init. More: docs/transfer.md."""

LINES_WAITING_MAX = 10_000
"""Lines of the log that wait for a slow reader; beyond, they are left out."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="directory to store into and fetch from; several need names",
    )
    parser.add_argument(
        "--read-only", action="append", default=[], metavar="[NAME=]DIR", help="only to fetch from"
    )
    parser.add_argument("--listen", required=True, metavar="ADDR:PORT", help="where to listen")
    parser.add_argument(
        "--ports",
        type=int,
        default=1,
        metavar="N",
        help="listen at N ports, from that one on, so that networks can tell routes apart",
    )
    parser.add_argument("--sync", action="store_true", help="confirm only what is on the disk")
    parser.add_argument(
        "--silence", metavar="TIME", default="20 s", help="a client silent for this long is gone"
    )
    parser.add_argument(
        "--idle", metavar="TIME", default="24 h", help="a session with nothing done for this ends"
    )
    parser.add_argument(
        "--reserve", metavar="SIZE", help="what stays free of each file system (1 %%, at most 1 GB)"
    )
    parser.add_argument(
        "--quota", metavar="SIZE", help="what each root, or path of a client, may hold"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON event per line, the log included"
    )
    parser.add_argument(
        "--allow",
        action="append",
        metavar="NAME=ro|rw[:PATH]",
        help="what the client of that certificate may do, and nobody else anything",
    )
    parser.add_argument(
        "--clients", metavar="FILE", help='the same as TOML: [NAME] rw = ["PATH"], ro = [""]'
    )
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--keys", metavar="DIR", default=str(DEFAULT_KEYS), help="key directory")
    keys.add_argument("--insecure", action="store_true", help="no TLS: anyone may do all this")


def run(args: argparse.Namespace) -> int:
    """Serves until it is interrupted."""
    if not args.root and not args.read_only:
        raise BadInput("nothing to serve: give --root DIR or --read-only DIR")
    log = LogWriter(args.json)
    with signals.awaited() as until_ended, log, _server(args, log) as server:
        host, port = server.address
        others = server.ports[1:]
        if args.json:
            event = {"event": "listening", "host": host, "port": port}
            print(json.dumps(event | ({"ports": server.ports} if others else {})), flush=True)
        else:
            more = f" and at {', '.join(map(str, others))}" if others else ""
            shown = f"[{host}]" if ":" in host else host
            print(f"listening on {shown}:{port}{more}", flush=True)
        if args.insecure:
            print("weir: insecure: no TLS, anyone who can connect is trusted", file=sys.stderr)
        log.start()
        until_ended()
    return 0


class LogWriter:
    """Writes the server's log without ever holding up the server.

    Lines wait for a reader that is slow, and are left out where it is too slow; one that has gone
    is written to no more. A context manager.

    Args:
        as_json: JSON to standard output instead of text to standard error.
    """

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._stream = sys.stdout if as_json else sys.stderr
        self._lines: queue.Queue[str | None] = queue.Queue(LINES_WAITING_MAX)
        self._thread = threading.Thread(target=self._write, name="weir-log", daemon=True)

    def tell(self, line: str, facts: dict[str, Any]) -> None:
        """One entry, as `weir.transfer.Server` gives it."""
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        if self._as_json:
            line = json.dumps({"event": facts["event"], "time": now, **facts})
        else:
            line = f"{now} {line}"
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(line)

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (line := self._lines.get()) is not None:
                self._stream.write(line + "\n")
                self._stream.flush()

    def start(self) -> None:
        """Begins to write; what was told before waits until then."""
        self._thread.start()

    def __enter__(self) -> "LogWriter":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
        if self._thread.is_alive():
            self._thread.join(timeout=1)


def _server(args: argparse.Namespace, log: LogWriter) -> Server:
    writable = [_root(text) for text in args.root]
    read_only = [_root(text) for text in args.read_only]
    names = [name for name, _ in (*writable, *read_only)]
    return Server(
        roots=writable,
        read_only=read_only,
        listen=args.listen,
        ports=args.ports,
        keys=None if args.insecure else args.keys,
        sync=args.sync,
        silence=option(Time, args.silence, "--silence"),
        idle=option(Time, args.idle, "--idle"),
        reserve=None if args.reserve is None else option(Bytes, args.reserve, "--reserve"),
        quota=None if args.quota is None else option(Bytes, args.quota, "--quota"),
        rights=_grants(args, names),
        on_entry=log.tell,
    )


def _grants(args: argparse.Namespace, roots: list[str]) -> list[Grant] | None:
    if args.allow is None and args.clients is None:
        return None
    grants = [rights.parse(text, roots) for text in args.allow or ()]
    return grants + (rights.read(args.clients, roots) if args.clients else [])


def _root(text: str) -> tuple[str, str]:
    name, equals, directory = text.partition("=")
    return (name, directory) if equals else ("", text)
