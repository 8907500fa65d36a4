"""A socket by which other processes ask a relay for its status, change its weights, or announce.

One line of JSON each way. Who may open the socket's file may ask, and nobody else.
"""

import contextlib
import errno
import ipaddress
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weir._core import Relay
from weir.errors import BadInput, Unavailable
from weir.listener import clear_socket, remove_socket

PATIENCE_S = 10.0
LINE_MAX, ANSWER_MAX = 1 << 20, 1 << 26
# So many clients are announced at a time, at most: a line holds no more.
ANNOUNCED_MAX = 4_096
UID_MAX = 65_532
# So many are heard at a time: one more, and the one that has been for longest is cut off.
ASKING_MAX = 32
# When no descriptor is left for who asks, one looks again after so long.
_AGAIN_S = 0.1
LEASE_MAX_S = 3600.0
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)
# What a question that makes no sense may lead to: whatever was asked, the next one is answered.
_WRONG = (BadInput, ArithmeticError, AttributeError, RecursionError, TypeError, ValueError)


@contextlib.contextmanager
def served(relay: Relay, path: Path) -> Iterator[None]:
    """Answers at a path until the block is left; the file is its owner's alone.

    Raises:
        BadInput: the path cannot be listened at, or another process listens there.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            clear_socket(path)  # what a relay that was killed has left
            before = os.umask(0o177)
            try:
                listener.bind(str(path))
            finally:
                os.umask(before)
            made = path.lstat()
            listener.listen()
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror or error}") from None
        thread = threading.Thread(target=_Answering(relay).all, args=(listener,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            remove_socket(path, made)
            # Wakes the thread, which then ends.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)


def ask(path: Path, question: dict[str, Any]) -> dict[str, Any]:
    """The status of the relay that answers at a path, after doing what the question says.

    Args:
        path: of its socket.
        question: `weights`, a list of networks and weights, where they are to change; or `announce`
            and `forget`, lists of clients (see `weir._core.Relay.announce`), and with `all` whether
            everybody who was announced is to be told of, or only those who have not come or are
            over. Then the answer is who that is, and which run of the relay it is.
        question: `weights`, a list of networks and weights, where they are to change; with
            `lease_s`, for so long: then whoever has the weight 0 has 1, unless it was asked again.

    Raises:
        BadInput: it cannot do that.
        Unavailable: none answers there.
    """
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(PATIENCE_S)
            asking.connect(str(path))
            asking.sendall(json.dumps(question).encode() + b"\n")
            answer = json.loads(_line(asking, ANSWER_MAX))
    except OSError as error:
        raise Unavailable(f"{path}: no relay answers: {error.strerror or error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise Unavailable(f"{path}: what answers there is no relay") from None
    except ValueError as error:
        raise Unavailable(f"{path}: no relay answers: {error}") from None
    if not isinstance(answer, dict):
        raise Unavailable(f"{path}: what answers there is no relay")
    if "error" in answer:
        raise BadInput(str(answer["error"]))
    return answer


def host(client: str) -> str:
    """The IP of a flow's client, `10.0.0.1:5000` or `[fd00::1]:5000`, as `ipaddress` writes it.

    Raises:
        ValueError: it is none.
    """
    address = ipaddress.ip_address(client.rpartition(":")[0].strip("[]"))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _line(connection: socket.socket, most: int) -> bytes:
    """What the other end says until the end of its line, which it has `PATIENCE_S` for.

    Raises:
        OSError: it takes longer, or is gone.
        ValueError: it says more, or less.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    line = bytearray()
    while not line.endswith(b"\n"):
        connection.settimeout(max(0.001, deadline_s - time.monotonic()))
        part = connection.recv(1 << 16)
        line += part
        if not part or len(line) > most or time.monotonic() > deadline_s:
            raise ValueError("it broke off" if not part else "it is too long, or takes too long")
    return bytes(line)


class _Answering:
    """Answers those who ask a relay, each in a thread of its own: who is slow holds nobody up."""

    def __init__(self, relay: Relay) -> None:
        self._relay, self._lease = relay, _Lease(relay)
        # Who comes back with another name has forgotten everything.
        self._run = secrets.token_hex(8)
        self._asking: dict[socket.socket, None] = {}
        # Guards who asks; and has one at a time change anything.
        self._lock, self._changing = threading.Lock(), threading.Lock()

    def all(self, listener: socket.socket) -> None:
        """Until the listener is shut down."""
        while True:
            try:
                asking, _ = listener.accept()
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    return
                time.sleep(_AGAIN_S)
                continue
            self._begin(asking)

    def _begin(self, asking: socket.socket) -> None:
        with self._lock:
            if len(self._asking) >= ASKING_MAX:
                longest = next(iter(self._asking))
                del self._asking[longest]
                # It is closed by its own thread, which this wakes.
                with contextlib.suppress(OSError):
                    longest.shutdown(socket.SHUT_RDWR)
            self._asking[asking] = None
        try:
            threading.Thread(target=self._one, args=(asking,), daemon=True).start()
        except RuntimeError:  # there may be no more threads
            self._end(asking)

    def _one(self, asking: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError, ValueError):
                line = _line(asking, LINE_MAX)
                with self._changing:
                    answer = _answer(self._relay, self._lease, line, self._run)
                asking.settimeout(PATIENCE_S)
                asking.sendall(json.dumps(answer).encode() + b"\n")
        finally:
            self._end(asking)

    def _end(self, asking: socket.socket) -> None:
        with self._lock:
            self._asking.pop(asking, None)
            asking.close()


class _Lease:
    """Weights whose giver may die: nobody is held for ever for its sake."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._timer: threading.Timer | None = None

    def renew(self, weights: list[tuple[str, int]], lease_s: float | None) -> None:
        """These weights hold now, for so long; None: for good."""
        if self._timer is not None:
            self._timer.cancel()
        if lease_s is not None:
            freed = [(network, max(1, weight)) for network, weight in weights]
            self._timer = threading.Timer(lease_s, self._relay.set_weights, [freed])
            self._timer.daemon = True
            self._timer.start()


def _answer(relay: Relay, lease: _Lease, line: bytes, run: str) -> dict[str, Any]:
    try:
        question = json.loads(line)
        if not isinstance(question, dict):
            raise BadInput("a question is a JSON object")
        if "announce" in question:
            return {"run": run, **_announced(relay, question)}
        if "weights" in question:
            wanted = [(str(network), int(weight)) for network, weight in question["weights"]]
            told_s = question.get("lease_s")
            lease_s = None if told_s is None else float(told_s)
            if lease_s is not None and not 0 < lease_s <= LEASE_MAX_S:
                return {"error": f"a lease of {lease_s:g} s; up to {LEASE_MAX_S:g} are allowed"}
            if not relay.set_weights(wanted):
                return {"error": "nothing is joined here: only the join end has weights"}
            lease.renew(wanted, lease_s)
        (_, own), *aggregates = relay.status()
        named = [{"from": origin, **status} for origin, status in aggregates]
        return {**own, "aggregates": named} if named else own
    except _WRONG as error:
        return {"error": str(error)}


def _announced(relay: Relay, question: dict[str, Any]) -> dict[str, Any]:
    """What becomes of clients; raises `BadInput`, TypeError, ValueError for a wrong question."""
    clients = [
        (str(client), int(uid), str(server), source, tuple(offered))
        for client, uid, server, source, offered in question["announce"]
    ]
    if wrong := [one[1] for one in clients if not 0 < one[1] <= UID_MAX]:
        raise BadInput(f"{wrong[0]} is no UID: from 1 to {UID_MAX}")
    known = relay.forget([str(client) for client in question.get("forget", ())])
    if not known or not relay.announce(clients):
        raise BadInput("nobody is announced here: start it with --announced")
    return {"announced": relay.announced(bool(question.get("all")))}
