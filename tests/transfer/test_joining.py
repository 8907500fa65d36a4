"""Data connections that join a transfer while it sends, and leave it."""

import contextlib
import itertools
import os
import secrets
import socket
import struct
import threading
from pathlib import Path

import peer
import pytest
from rig import free_port, told_by_ss, until

from weir import Rate, Time
from weir.errors import BadInput
from weir.probe.tcp_info import parse_tcp_info
from weir.transfer import PAUSED, Server, Transfer, keys_init

MIB = 1 << 20
SLOW = Rate("20 Mbit/s")


@pytest.fixture
def source(tmp_path):
    (tmp_path / "root").mkdir()
    source = tmp_path / "source"
    source.write_bytes(os.urandom(40 * MIB))
    return source


def begun(source, address, **choices):
    """The source on its way to `copy`, slowly; connections can join."""
    chosen = {"keys": None, "rate": SLOW, "retry": Time("60 s")} | choices
    transfer = Transfer.send([source], "{}:{}/copy".format(*address), **chosen)
    transfer.start()
    until(lambda: transfer.can_join)
    return transfer


def finish(transfer, source):
    transfer.set_rate(None)
    assert transfer.wait(Time("60 s"))
    assert (source.parent / "root" / "copy").read_bytes() == source.read_bytes()
    assert not transfer.can_join


def in_use(transfer, count):
    """Waits until it sends on so many connections."""
    return until(lambda: len(transfer.tcp_info()) == count)


def open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def sending(source):
    with Server([source.parent / "root"], listen="127.0.0.1:0", keys=None) as server:
        transfer = begun(source, server.address)
        yield transfer
        finish(transfer, source)


def test_connections_join_and_leave_while_it_sends(sending):
    (first,) = sending.ports()
    for count in (4, 2, 5, 1):
        sending.set_streams(count)
        in_use(sending, count)
        assert len(set(sending.ports())) == count
        assert count != 4 or sending.ports()[0] == first


def test_new_connections_take_the_place_of_all_that_there_are(sending):
    for count in (1, 3):
        sending.set_streams(count)
        in_use(sending, count)
        before = set(sending.ports())
        sending.renew_streams()
        until(lambda before=before: not before & set(sending.ports()))
        in_use(sending, count)
    # They are counted like others.
    for count in (4, 1):
        sending.set_streams(count)
        in_use(sending, count)


def test_what_joins_carries_its_part_and_keeps_to_the_rate_and_the_control(sending):
    sending.set_congestion("reno")
    sending.set_streams(3)
    in_use(sending, 3)
    told = [parse_tcp_info(one) for one in sending.tcp_info()]
    assert max(one.pacing_rate_bps for one in told) <= 20e6 / 3
    sending.set_rate(Rate("400 Mbit/s"))
    until(lambda: all(parse_tcp_info(one).acked_bytes > MIB for one in sending.tcp_info()))
    for local, port, there, theirs in sending.ports():
        assert " reno " in told_by_ss((local, port), (there, theirs))


def test_a_number_of_streams_that_no_session_has_is_refused(sending):
    for count in (0, 65):
        with pytest.raises(BadInput, match=f"streams cannot be {count}: 1 to 64"):
            sending.set_streams(count)


def test_connections_come_and_go_as_often_as_one_likes(tmp_path):
    """More than a session may have at once; both ends let go of what has left."""
    source, root = tmp_path / "source", tmp_path / "root"
    source.write_bytes(os.urandom(MIB) * 200)
    root.mkdir()
    with Server([root], listen="127.0.0.1:0", keys=None) as server:
        transfer = begun(source, server.address, rate=PAUSED)
        open_before = open_files()
        for _ in range(5):
            transfer.set_streams(16)
            in_use(transfer, 16)
            transfer.set_streams(1)
            transfer.set_rate(Rate("400 Mbit/s"))
            in_use(transfer, 1)
            transfer.set_rate(PAUSED)
        until(lambda: open_files() <= open_before + 16)
        assert not transfer.is_over
        finish(transfer, source)


def test_under_keys_too_and_into_many_files(tmp_path):
    keys_init(tmp_path / "keys")
    source, root = tmp_path / "source", tmp_path / "root"
    source.mkdir()
    root.mkdir()
    files = {f"f{number}": os.urandom(20_000) for number in range(500)}
    for name, content in files.items():
        (source / name).write_bytes(content)
    with Server([root], listen="127.0.0.1:0", keys=tmp_path / "keys") as server:
        transfer = begun(f"{source}/", server.address, keys=tmp_path / "keys")
        transfer.set_streams(3)
        in_use(transfer, 3)
        transfer.set_rate(None)
        assert transfer.wait(Time("60 s"))
    assert {one.name: one.read_bytes() for one in (root / "copy").iterdir()} == files


def test_it_resumes_with_as_many(source):
    """The server dies, and another takes its place."""
    listen = f"127.0.0.1:{free_port()}"
    with Server([source.parent / "root"], listen=listen, keys=None) as server:
        transfer = begun(source, server.address)
        transfer.set_streams(4)
        in_use(transfer, 4)
        until(lambda: transfer.progress().bytes_durable.count > 4 * MIB)
    in_use(transfer, 0)
    with Server([source.parent / "root"], listen=listen, keys=None):
        in_use(transfer, 4)
        until(lambda: transfer.progress().bytes_resumed.count > 4 * MIB)
        finish(transfer, source)


def pump(source, sink, limit=None):
    """Carries bytes one way until that way ends, or the limit is reached: true then."""
    carried = 0
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 14):
            sink.sendall(piece)
            carried += len(piece)
            if limit and carried >= limit:
                return True
        sink.shutdown(socket.SHUT_WR)
    return False


class Middlebox:
    """Lets a session's first data connection through, and resets others in the middle.

    Or takes so many connections and no more.
    """

    def __init__(self, place, most=None):
        self.place = place
        self.reset = 0
        self._most = most
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self.accepting = threading.Thread(target=self._accept)

    def __enter__(self):
        self.accepting.start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join()

    def _accept(self):
        data = 0
        with self._listener, contextlib.suppress(OSError):
            for _ in itertools.count() if self._most is None else range(self._most):
                near, _ = self._listener.accept()
                try:
                    greeting = peer.take(near, 40)
                except EOFError:
                    near.close()
                    continue
                data = data + 1 if greeting[15] == peer.DATA else 0
                arguments = (near, greeting, 200_000 if data > 1 else None)
                threading.Thread(target=self._carry, args=arguments).start()

    def _carry(self, near, greeting, limit):
        with near, socket.create_connection(self.place) as far:
            far.sendall(greeting)
            back = threading.Thread(target=pump, args=(far, near))
            back.start()
            if pump(near, far, limit):
                self.reset += 1
                for one in (near, far):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            for one in (near, far):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            back.join()


def test_what_joins_and_dies_ends_nothing_and_is_left_out_after_the_second_time(source):
    with (
        Server([source.parent / "root"], listen="127.0.0.1:0", keys=None) as server,
        Middlebox(server.address) as between,
    ):
        transfer = begun(source, between.address)
        transfer.set_streams(2)
        told = []

        def is_left_out():
            told.extend(transfer.take_notices())
            return any(notice.startswith("no more streams: ") for notice in told)

        until(is_left_out)
        assert between.reset >= 2
        assert sum(notice.endswith("trying again") for notice in told) >= 1
        in_use(transfer, 1)
        assert not transfer.can_join
        finish(transfer, source)


def test_what_cannot_be_had_is_told_and_the_file_goes(source):
    with (
        Server([source.parent / "root"], listen="127.0.0.1:0", keys=None) as server,
        Middlebox(server.address, most=2) as between,
    ):
        transfer = begun(source, between.address)
        between.accepting.join()
        transfer.set_streams(4)
        (notice,) = until(transfer.take_notices)
        assert notice.startswith("no more streams: cannot connect to 127.0.0.1:")
        assert not transfer.can_join
        assert len(transfer.tcp_info()) == 1
        finish(transfer, source)


def test_a_stranger_without_the_token_joins_nothing(source):
    with Server([source.parent / "root"], listen="127.0.0.1:0", keys=None) as server:
        transfer = begun(source, server.address)
        for _ in range(3):
            with peer.dial(server.address) as stranger:
                stranger.sendall(peer.hello(peer.DATA, secrets.token_bytes(16)))
                stranger.settimeout(60)
                assert stranger.recv(1) == b""
        transfer.set_streams(3)
        in_use(transfer, 3)
        finish(transfer, source)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_server_of_an_older_version_is_told_of_no_joiner(tmp_path, version):
    content = os.urandom(5 * MIB)
    (tmp_path / "f").write_bytes(content)
    with peer.Listener() as listener:
        transfer = Transfer.send([tmp_path / "f"], f"{listener.place}/f", keys=None)
        transfer.set_streams(4)
        transfer.start()
        with listener.accept(version) as server:
            server.hear(peer.OFFER)
            assert not transfer.can_join
            server.say(peer.answers(peer.missing(0, (0, 5))))
            frames = [peer.take(server.data, 32 + MIB + 40) for _ in range(5)]
            server.say(peer.message(peer.RECEIVED, struct.pack(">Q", 0)))
            kinds = [server.hear(*range(1, 60))[0]]
            while kinds[-1] != peer.COMMIT:
                kinds.append(server.hear(*range(1, 60))[0])
            listener.socket.settimeout(0)
            with pytest.raises(BlockingIOError):
                listener.socket.accept()
            transfer.cancel()
    assert b"".join(frame[32:-40] for frame in frames) == content
    assert peer.JOINED not in kinds


def offered(server, version, **choices):
    """A session in which a file of two chunks is on offer, and asked for."""
    client = peer.greeted(server.address, version=version)
    client.say(peer.put_request(b"copy", **choices))
    client.hear(peer.READY)
    client.say(peer.message(peer.BEGIN, b"\1"), peer.offer(0, peer.entry(b"copy", 2 * MIB)))
    client.hear(peer.ANSWERS)
    return client


@pytest.mark.parametrize(
    ("version", "streams", "words"),
    [
        (3, 1, b"a message that only a receiver sends"),
        (4, 65, b"1 to 64 are allowed"),
    ],
)
def test_a_client_that_tells_of_what_cannot_join_is_refused(tmp_path, version, streams, words):
    with (
        Server([tmp_path], listen="127.0.0.1:0", keys=None) as server,
        offered(server, version) as client,
    ):
        client.say(peer.message(peer.JOINED, struct.pack(">H", streams)))
        _, body = client.hear(peer.FAILURE)
        assert words in body


def test_nobody_is_waited_for_for_ever(tmp_path):
    with (
        Server([tmp_path], listen="127.0.0.1:0", keys=None, idle=Time("1 s")) as server,
        offered(server, 4) as client,
    ):
        client.say(peer.message(peer.JOINED, struct.pack(">H", 1)))
        with pytest.raises((EOFError, ConnectionResetError)):
            client.hear(0)
