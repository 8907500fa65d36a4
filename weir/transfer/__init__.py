"""Move files between hosts: verified, paced, resumable.

    from weir.transfer import Server, Transfer

    with Server(roots=["/srv/incoming"], listen="127.0.0.1:7411", keys=None) as server:
        transfer = Transfer.send(["run7.h5"], "127.0.0.1:7411/run7.h5", keys=None)
        transfer.start()
        transfer.set_rate(Rate("500 Mbit/s"))
        transfer.wait()

Nothing here blocks other Python threads. The wire protocol and what is promised of it stand in
`docs/transfer.md`.

What is only a record is a named tuple: dataclasses take a third of what `weir send` imports.
"""

import os
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from weir._core import Bytes, Rate, Time, keys_init, keys_issue, keys_revoke, keys_show
from weir._core import Server as CoreServer
from weir._core import Transfer as CoreTransfer
from weir.errors import BadInput, WeirError
from weir.home import expanded
from weir.transfer.rights import Grant

__all__ = [
    "DEFAULT_KEYS",
    "PAUSED",
    "SPARE_PACKET_BYTES",
    "YIELDING",
    "FailedFile",
    "Grant",
    "HostShare",
    "Progress",
    "Route",
    "Server",
    "SettledFile",
    "Spare",
    "Transfer",
    "keys_init",
    "keys_issue",
    "keys_revoke",
    "keys_show",
]

StrPath = str | PathLike[str]
State = Literal["connecting", "running", "done", "failed", "cancelled"]

DEFAULT_KEYS = Path("~/.config/weir/keys")
"""Where keys are looked for when nothing else is said."""
_NONE = Bytes.from_count(0)
PAUSED = Rate.from_bit_per_s(0)
"""The rate of a transfer that is to send nothing, and keep its connections."""
YIELDING = "ledbat"
"""The congestion control of spare connections that no kernel has: LEDBAT++, run by the mover."""
SPARE_PACKET_BYTES = range(576, 65_536)
"""What the largest packet of spare connections may have: what every host takes, to IPv4's most."""
SILENCE = Time("20 s")
"""How long a peer may say nothing."""
IDLE = Time("24 h")
"""How long nothing may be done in a session: a sender may read for hours before it sends."""


class HostShare(NamedTuple):
    """What one of several hosts took, or gave, over all attempts of a transfer."""

    name: str
    """Host and port, as they were named."""
    bytes: Bytes
    """Content handed to its connections (or that came on them, by `get`), without the zeros of
    holes. What is sent again counts again, wherever it goes."""
    lost_at_s: float | None
    """When it was given up, in seconds since 1970; None if the transfer has it or expects it."""
    why: str
    """Why it was given up; empty if it was not."""


class Progress(NamedTuple):
    """How far a transfer is; what was there before it began is included in the counts."""

    bytes_done: Bytes
    """Handed to the network (or taken from it, by `get`)."""
    bytes_total: Bytes
    """Size of all files, as far as the sources have been read."""
    bytes_durable: Bytes
    """Confirmed by the receiver: they survive a crash of it."""
    bytes_resumed: Bytes
    """Were at the receiver before this attempt."""
    files_done: int
    """Verified and under their final names."""
    files_failed: int
    """Files, links and directories that were to be moved and are not."""
    files_skipped: int
    """Left out, since their kind is not copied, such as sockets."""
    files_total: int
    total_is_known: bool
    """The sources have been read to the end."""
    rate: Rate
    """Mean rate of durable bytes since the last call of `progress` (at least 0.1 s apart)."""
    state: State
    error: WeirError | None
    bytes_spare: Bytes = _NONE
    """What spare connections took of `bytes_done` in this attempt; the rest is the promise's."""
    hosts: tuple[HostShare, ...] = ()
    """What each of several hosts took (or gave, by `get`), the first one first; empty where there
    is one."""


class Spare(NamedTuple):
    """What a transfer sends beside its rate: further connections of a lower class.

    Routers that tell the class serve it after best effort; others do not, and there these
    connections compete like any. What becomes of a chunk that a router starves stands in
    docs/spare.md.
    """

    service: Literal["le", "cs1"] = "le"
    """LE is DSCP 1 (RFC 8622), CS1 is DSCP 8."""
    streams: int = 1
    """Connections, beside those of the rate; a server allows 64 in all."""
    rate: Rate | None = None
    """Bound of all of them together; None is none."""
    congestion: str | None = None
    """Congestion control: one of the kernel's, or `YIELDING`; None is this host's default."""
    packet: Bytes | None = None
    """Their largest packet, 576 to 65535 bytes; None is what the path carries."""


class Route(NamedTuple):
    """One of several ports of the receiver, so that a network can send it along a path of its own.

    A route over which nothing gets through is left out for a while; what was under way there goes
    by the others (docs/transfer.md).
    """

    port: int
    rate: Rate | None = None
    """Pacing of its connections together; None is unpaced, zero takes nothing."""


class SettledFile(NamedTuple):
    """A file that stands verified under its final name."""

    path: bytes
    """Below the destination."""
    size: Bytes
    hash: str | None
    """BLAKE3 in hexadecimal, as `b3sum` prints it; None without hashing, or when it was there and
    its content was not compared."""
    already_there: bool
    """The receiver had it, by its size and modification time or, with `checksum`, its content."""


class FailedFile(NamedTuple):
    """Something that was to be moved and was not."""

    path: bytes | None
    """Below the destination; None where it is not known, for example if it could not be read."""
    reason: str


class Transfer:
    """One transfer: made by `send` or `get`, begun by `start`, changeable while it runs."""

    def __init__(self, core: CoreTransfer) -> None:
        self._core = core
        self._last: tuple[float, int] | None = None
        self._rate = Rate.from_bit_per_s(0)

    @classmethod
    def send(
        cls,
        sources: Sequence[StrPath],
        destination: str | bytes,
        *,
        keys: StrPath | None,
        **choices: Any,
    ) -> Self:
        """A transfer of local files and directories to `HOST:PORT/PATH`.

        `DIR` goes into the destination under its name, `DIR/` as its content. A single file takes
        the destination as its name unless that is a directory or ends with a slash.

        Args:
            sources: files and directories.
            destination: where they go. `HOST:PORT,HOST:PORT/PATH` names up to 8 hosts that share
                the destination's file system: the first receives all, the others chunks of large
                files beside it (docs/striping.md).
            keys: key directory of `weir keys`, or None for a connection without TLS.
            **choices: see `get`; the choices are the same. `root` is of `send` alone: the sources
                are paths below that directory, and nothing outside it is read, whatever links say.

        Raises:
            BadInput: a source is not there, or a choice makes no sense.
        """
        if not sources:
            raise BadInput("nothing to send")
        paths = [os.fspath(source) for source in sources]
        return cls(CoreTransfer.send(paths, _bytes(destination), _choices(keys, **choices)))

    @classmethod
    def get(
        cls,
        sources: Sequence[str | bytes],
        destination: StrPath,
        *,
        keys: StrPath | None,
        **choices: Any,
    ) -> Self:
        """A transfer of `HOST:PORT/PATH` sources, all on one server, to a local place.

        Args:
            sources: remote places. `HOST:PORT,HOST:PORT/PATH` names up to 8 hosts that have the
                same there: the first sends all, the others chunks of large files beside it
                (docs/striping.md).
            destination: a directory, or the name for a single file.
            keys: key directory of `weir keys`, or None for a connection without TLS.
            **choices: `rate` (Rate or None: unpaced; zero: paused), `streams` (int, default 1),
                `congestion` (name or None: the sending host's default), `hash` ("blake3" or
                "none"), `sync` (durable means on the disk), `checksum` (what is there is the same
                only by its content), `read_back` (the receiver reads each file back from the
                storage before it takes its name), `follow_links`, `unsafe_links` (`get`
                takes links that lead out of what was asked for), `spare` (`Spare` or None; `send`
                alone), `server_name` (that the server's
                certificate must have), `routes` (`Route`s instead of `rate` and the destination's
                port; `send` alone; `streams` are of each), `retry` (Time without progress
                after which a broken connection is given up; default 0 s), `silence` (Time after
                which a server that says nothing is gone; 5 s or more, default 20 s).

        Raises:
            BadInput: a choice makes no sense.
        """
        places = [_bytes(source) for source in sources]
        return cls(CoreTransfer.get(places, os.fspath(destination), _choices(keys, **choices)))

    def start(self) -> None:
        """Begins; calling it again does nothing."""
        self._core.start()

    def set_rate(self, rate: Rate | None) -> None:
        """Paces at `rate` over all streams from now on; None is unpaced, zero pauses.

        Spare connections are not counted and go on (`set_spare_rate`). Beside them a pause lets
        each paced connection end the chunk that it has begun. Routes have equal parts of the rate.
        """
        self._core.set_rate(rate)

    def set_routes(self, routes: Sequence[Route]) -> None:
        """Paces each route at its rate from now on; those that are not named keep theirs.

        At zero each of a route's connections ends the chunk that it has begun and takes no other.
        """
        self._core.set_routes([(route.port, route.rate) for route in routes])

    def set_spare_rate(self, rate: Rate | None) -> None:
        """Bounds all spare connections together from now on; None is no bound.

        At zero each ends the chunk that it has begun and takes no other. Without spare connections
        nothing happens.
        """
        self._core.set_spare_rate(rate)

    def set_congestion(self, name: str) -> None:
        """Switches the congestion control of the live connections.

        Raises:
            BadInput: the kernel does not offer it to this process (`get`: the server reports it
                as the transfer's error).
        """
        self._core.set_congestion(name)

    def set_streams(self, streams: int) -> None:
        """Sends on so many data connections from now on: more join, or some leave.

        Nothing happens where connections cannot join (`can_join`), and what cannot be had is told
        as a notice; the transfer goes on.

        Args:
            streams: 1 to 64.

        Raises:
            BadInput: another number.
        """
        if not 1 <= streams <= 64:
            raise BadInput(f"streams cannot be {streams}: 1 to 64")
        self._core.set_streams(streams)

    def renew_streams(self) -> None:
        """Sends on new data connections in place of those there are, which leave when they can.

        A new one knows nothing of what its path was like: under BBR it finds its share within
        seconds among others that one which was squeezed before takes minutes to move. Nothing
        happens where connections cannot join (`can_join`).
        """
        self._core.renew_streams()

    @property
    def can_join(self) -> bool:
        """Whether more data connections can join now (`set_streams`).

        They can while it sends to one port, without spare connections, and the server is of
        protocol version 4 or newer.
        """
        return self._core.can_join()

    def set_unsent_max(self, most: Bytes | None) -> None:
        """Lets so much wait unsent in the kernel, for each connection that this host sends on.

        The less it is, the sooner a pause or a change of the congestion control shows on the path
        (`TCP_NOTSENT_LOWAT`). None is the 1 MiB that a transfer begins with.
        """
        self._core.set_unsent_max(None if most is None else most.count)

    def progress(self) -> Progress:
        """How far it is."""
        done, total, durable, resumed, spare, *files, known, state = self._core.progress()
        files_done, files_failed, files_skipped, files_total = files
        return Progress(
            bytes_done=Bytes.from_count(done),
            bytes_total=Bytes.from_count(total),
            bytes_durable=Bytes.from_count(durable),
            bytes_resumed=Bytes.from_count(resumed),
            bytes_spare=Bytes.from_count(spare),
            files_done=files_done,
            files_failed=files_failed,
            files_skipped=files_skipped,
            files_total=files_total,
            total_is_known=known,
            rate=self._rate_now(durable - resumed),
            state=state,  # type: ignore[arg-type]
            error=self._core.error(),  # type: ignore[arg-type]
            hosts=tuple(
                HostShare(name, Bytes.from_count(taken), lost_at_s, why)
                for name, taken, lost_at_s, why in self._core.hosts()
            ),
        )

    @property
    def remaining(self) -> Bytes:
        """What is not yet durable of all files, as far as the sources have been read."""
        _, total, durable, *_ = self._core.progress()
        return Bytes.from_count(max(0, total - durable))

    @property
    def is_over(self) -> bool:
        """Whether it is done, has failed or was cancelled."""
        return self._core.progress()[-1] not in ("connecting", "running")

    def _rate_now(self, durable: int) -> Rate:
        import time

        now = time.monotonic()
        if self._last is None or durable < self._last[1]:
            self._last = (now, durable)
        span = now - self._last[0]
        if span >= 0.1:
            moved = durable - self._last[1]
            self._rate = Rate.from_bit_per_s(int(moved * 8 / span))
            self._last = (now, durable)
        return self._rate

    def wait(self, timeout: Time | None = None) -> bool:
        """Waits until it is over; False if it is not over within `timeout`.

        Raises:
            WeirError: the transfer failed or was cancelled; the class says what can be done.
        """
        if not self._core.wait(timeout):
            return False
        error = self._core.error()
        if error is not None:
            raise error
        return True

    def cancel(self) -> None:
        """Ends it; the same request resumes it."""
        self._core.cancel()

    def ports(self) -> list[tuple[str, int, str, int]]:
        """`(local address, local port, remote address, remote port)` of each data connection."""
        return self._core.ports()

    def tcp_info(self) -> list[bytes]:
        """`struct tcp_info` of each data connection that this host sends on (see `<linux/tcp.h>`).

        None while there is no connection, and none of spare ones and those that it receives on.
        """
        return self._core.tcp_info()

    def congestion(self) -> str | None:
        """The congestion control of its data connections, which may be a route's choice.

        None while there is none, and of those that this host receives on.
        """
        return self._core.congestion()

    def count_only(self) -> None:
        """Counts the files that settle from now on, and keeps none for `take_settled`.

        Memory then does not grow with their number.
        """
        self._core.count_only()

    def take_settled(self) -> list[SettledFile]:
        """The files that settled since the last call; of more than 100 000 the latest."""
        return [
            SettledFile(path, Bytes.from_count(size), digest, there)
            for path, size, digest, there in self._core.take_settled()
        ]

    def take_failures(self) -> list[FailedFile]:
        """What failed since the last call, in the attempt that is under way or was the last."""
        return [FailedFile(path, reason) for path, reason in self._core.take_failures()]

    def take_notices(self) -> list[str]:
        """What was skipped, failed or retried since the last call, in words."""
        return self._core.take_notices()


class Server:
    """Serves directories; a context manager."""

    def __init__(
        self,
        roots: Sequence[StrPath | tuple[str, StrPath]] = (),
        *,
        listen: str,
        ports: int = 1,
        keys: StrPath | None,
        read_only: Sequence[StrPath | tuple[str, StrPath]] = (),
        sync: bool = False,
        silence: Time = SILENCE,
        idle: Time = IDLE,
        reserve: Bytes | None = None,
        quota: Bytes | None = None,
        rights: Sequence[Grant] | None = None,
        on_entry: Callable[[str, dict[str, Any]], None] | None = None,
    ) -> None:
        """Starts to serve.

        Args:
            roots: directories, or (name, directory) when there is more than one.
            listen: address and port; port 0 lets the system choose.
            ports: how many ports, 1 to 64, from that one on (with port 0 whichever are free). The
                connections of a transfer may come at any of them.
            keys: key directory of `weir keys`, or None to serve anyone who can connect.
            read_only: like `roots`, but nothing can be stored there.
            sync: confirm bytes only once they are on the disk.
            silence: a client that says nothing for this long is gone (5 s or more).
            idle: a session in which nothing is done for this long ends, however it shows that it
                lives (1 s or more).
            reserve: what stays free of each file system; None is 1 % of it, at most 1 GB.
            quota: what each root may hold, or with `rights` each path that a client may store
                below, unless its grant says otherwise.
            rights: which client may do what; None lets everyone do what the roots allow.
            on_entry: called from other threads, which it must not hold up, with a line for people
                and the same facts for a machine: who asked for what, with what outcome. Without
                it the lines go to this module's logger.

        Raises:
            BadInput: a root is not a directory, the port is in use, the keys are unusable.
        """
        exports = [
            (*_named(root), only_read)
            for only_read, group in ((False, roots), (True, read_only))
            for root in group
        ]
        if not 1 <= ports <= 64:
            raise BadInput(f"ports cannot be {ports}: 1 to 64")
        choices = {
            "ports": ports,
            "keys": None if keys is None else _expanded(keys),
            "sync": sync,
            "silence": silence,
            "idle": idle,
            "reserve": reserve,
            "quota": quota,
            "rights": None if rights is None else [grant.as_core() for grant in rights],
        }
        self._core = CoreServer(listen, exports, choices, on_entry or _log_entry)

    @property
    def address(self) -> tuple[str, int]:
        """Host address and port it listens on, the first if there are several."""
        return self._core.address()

    @property
    def ports(self) -> list[int]:
        """All ports it listens on."""
        return self._core.ports()

    def stop(self) -> None:
        """Cuts all sessions, which stay resumable, and ends."""
        self._core.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _log_entry(line: str, _facts: dict[str, Any]) -> None:
    # Only here: every `weir send` waits for what is imported above, and serves nobody.
    import logging

    logging.getLogger(__name__).info(line)


def _named(root: StrPath | tuple[str, StrPath]) -> tuple[str, str]:
    name, directory = root if isinstance(root, tuple) else ("", root)
    return name, os.fspath(directory)


def _bytes(place: str | bytes) -> bytes:
    return os.fsencode(place)


def _expanded(keys: StrPath) -> str:
    return str(expanded(keys))


def _spare_choices(spare: Spare) -> tuple[object, ...]:
    if not 1 <= spare.streams <= 63:
        raise BadInput(f"spare streams cannot be {spare.streams}: 1 to 63")
    packet = None if spare.packet is None else spare.packet.count
    if packet is not None and packet not in SPARE_PACKET_BYTES:
        raise BadInput(f"spare packets cannot have {packet} B: 576 to 65535")
    return spare.service, spare.streams, spare.rate, spare.congestion, packet


def _choices(
    keys: StrPath | None,
    *,
    rate: Rate | None = None,
    streams: int = 1,
    routes: Sequence[Route] = (),
    spare: Spare | None = None,
    congestion: str | None = None,
    hash: str = "blake3",
    sync: bool = False,
    checksum: bool = False,
    read_back: bool = False,
    follow_links: bool = False,
    unsafe_links: bool = False,
    root: StrPath | None = None,
    server_name: str | None = None,
    retry: Time | None = None,
    silence: Time = SILENCE,
) -> dict[str, Any]:
    if not 1 <= streams <= 64:
        raise BadInput(f"streams cannot be {streams}: 1 to 64")
    if routes and rate is not None:
        raise BadInput("routes have rates of their own: give no rate beside them")
    return {
        "keys": None if keys is None else _expanded(keys),
        "rate": rate,
        "streams": streams,
        "routes": [(route.port, route.rate) for route in routes],
        "spare": spare and _spare_choices(spare),
        "congestion": congestion,
        "hash": hash,
        "sync": sync,
        "checksum": checksum,
        "read_back": read_back,
        "follow_links": follow_links,
        "unsafe_links": unsafe_links,
        "root": None if root is None else os.fspath(root),
        "server_name": server_name,
        "retry": retry or Time.from_ns(0),
        "silence": silence,
    }
