"""`weir relay join --linked-ack`: what a client's kernel is acknowledged, its server's has.

Relays are processes of their own; clients and servers are sockets here, so that both kernels' own
counts are at hand. The client's is read first: what is in order now was in order before.
"""

import contextlib
import hashlib
import json
import random
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from linked_rig import (
    CLOSED,
    FIN_WAIT_1,
    HERE,
    PATIENCE_S,
    WEIR,
    Ends,
    acknowledged,
    fill,
    listening,
    received,
    relayed,
    sent_again,
    state,
    until,
)
from namespace_rig import namespace as namespace
from namespace_rig import tc

from studies.rig.killed import packets_from
from weir import bpf
from weir.relay import hold

needs_holding = pytest.mark.skipif(hold.lacking() is not None, reason=f"{hold.lacking()}")


@pytest.fixture
def alone(namespace):
    """A network namespace of this test's, where it may put filters."""
    tc("link", "set", "lo", "up", program="ip")


def answer(server: socket.socket) -> None:
    """Takes all, and says what it was."""
    digest = hashlib.sha256()
    while data := server.recv(1 << 18):
        digest.update(data)
    server.sendall(digest.digest())
    server.shutdown(socket.SHUT_WR)


def send_all(client: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)


# Loses packets on their way in.
LOSSY = """
struct packet { unsigned bytes, type, mark; };
static unsigned (*const chance)(void) = (void *)7;
PORT
__attribute__((section("tc"), used)) int lossy(struct packet *packet)
{
	return LOST ? 2 : -1;
}
char licence[] __attribute__((section("license"), used)) = "Apache-2.0";
"""
# Says which port a packet of TCP comes from, or (2) goes to.
PORT = """
static int (*const load)(void *, unsigned, void *, unsigned) = (void *)26;
static __attribute__((always_inline)) unsigned port(struct packet *packet, unsigned at)
{
	unsigned short found = 0;
	load(packet, 14 + 20 + at, &found, sizeof found);
	return __builtin_bswap16(found);
}
"""
ONE_IN_A_HUNDRED = "chance()%100==0"
# What the relay sends by itself when more is released.
ALL_THAT_RELEASE = "packet->mark>>16==0x5746"
# A test that hangs says what it hangs at.
HANGS_S = 60
SYN = 2
OPTION_SACK = 5


def lose(folder, lost: str) -> None:
    """Has the loopback interface lose packets."""
    lose_by(lossy(folder, lost))


def lossy(folder, lost: str) -> Path:
    """A program that loses packets."""
    (folder / "lossy.bpf.c").write_text(LOSSY.replace("PORT", PORT))
    return bpf.compiled(folder / "lossy.bpf.c", folder, LOST=lost)


def lose_by(program: Path) -> None:
    where = ("filter", "add", "dev", "lo", "ingress")
    tc(*where, "bpf", "direct-action", "object-file", str(program), "section", "tc")


@needs_holding
@pytest.mark.parametrize("linked", ["strict", "literal"])
def test_a_syn_is_answered_whatever_is_held(alone, tmp_path, linked):
    """003-spec, T-A5: a SYN-ACK that were held would come with a SYN's next attempt, after 1 s."""
    with (
        listening() as listener,
        relayed(tmp_path, listener.getsockname()[1], linked) as ends,
        ends.client() as held,
        listener.accept()[0] as server,
    ):
        fill(held)  # The server reads nothing, so that acknowledgements wait.
        assert acknowledged(held) <= received(server)
        began_s = time.monotonic()
        for _ in range(20):
            ends.client().close()
        assert time.monotonic() - began_s < 10


@needs_holding
@pytest.mark.parametrize(
    ("size", "lost"),
    [(24_000_000, None), (2_000_000, ONE_IN_A_HUNDRED), (200_000, ALL_THAT_RELEASE)],
    ids=["nothing lost", "one in a hundred lost", "all that release lost"],
)
def test_a_client_is_never_acknowledged_more_than_its_server_has(alone, tmp_path, size, lost):
    data = random.Random(7).randbytes(size)
    with listening() as listener, relayed(tmp_path, listener.getsockname()[1], "strict") as ends:
        with ends.client() as client, listener.accept()[0] as server:
            if lost is not None:
                lose(tmp_path, lost)
            for work in ((send_all, client, data), (answer, server)):
                threading.Thread(target=work[0], args=work[1:], daemon=True).start()
            looks, begun = 0, time.monotonic()
            while (seen := acknowledged(client)) < len(data) + 1:
                assert seen <= received(server), ends.seen(client, server)
                # It may have come to its end since it was asked.
                is_reset = state(client) == CLOSED and acknowledged(client) == seen
                is_late = time.monotonic() > begun + HANGS_S
                assert not (is_reset or is_late), ends.seen(client, server)
                looks += 1
            assert looks > 0
            assert client.recv(100) == hashlib.sha256(data).digest()
            assert client.recv(1) == b""
        until(lambda: ends.status()["ended"] == 1, "it has ended in order")
        assert ends.status()["flows"] == []


@needs_holding
def test_a_repaired_hole_is_acknowledged_with_what_the_client_knows_beyond_it(alone, tmp_path):
    """Inside of what it was told selectively no acknowledgement ends: RFC 2018, section 8."""
    tc("link", "set", "lo", "mtu", "1500", "gso_max_segs", "1", program="ip")
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        ends = stack.enter_context(relayed(tmp_path, listener.getsockname()[1], "strict"))
        packets = stack.enter_context(packets_from(ends.port))
        with ends.client() as client, listener.accept()[0] as server:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # What takes long while something is not acknowledged makes for long time-outs.
            losing = lossy(tmp_path, f"port(packet,2)=={ends.port}")
            client.sendall(bytes(20_000))
            # The server's buffer is full, and the kernel of the join end has it all.
            until(lambda: ends.status()["bytes_sent"] == 20_000, "all is joined")
            until(lambda: 0 < acknowledged(client) == received(server) < 20_000, "some of it")
            lose_by(losing)
            client.sendall(bytes(1_000))
            tc("filter", "del", "dev", "lo", "ingress")
            client.sendall(bytes(12_000))
            read = 0
            while read < 20_000:
                read += len(server.recv(min(1_000, 20_000 - read)))
                assert acknowledged(client) <= received(server)
            until(lambda: ends.status()["bytes_sent"] == 33_000, "the hole is repaired")
            assert 20_000 < received(server) < 33_000
            client.shutdown(socket.SHUT_WR)
            assert sum(map(len, iter(lambda: server.recv(1 << 12), b""))) == 33_000 - read
            until(lambda: acknowledged(client) == 33_001, "all, and its end")
            told: list[tuple[int, int]] = []
            for header in tcp_of(packets):
                acknowledges = int.from_bytes(header[8:12], "big")
                assert not any(begin <= acknowledges < end for begin, end in told), told
                told += [x for x in told_selectively(header) if x[0] > acknowledges]
            assert told, "it learns of the hole"


def told_selectively(header: bytes) -> list[tuple[int, int]]:
    """The blocks of an option SACK behind timestamps, as Linux and the relay write it."""
    size = header[35] if header[12] >> 4 > 8 and header[34] == OPTION_SACK else 2
    places = range(36, 34 + size, 8)
    return [
        (int.from_bytes(header[at : at + 4], "big"), int.from_bytes(header[at + 4 : at + 8], "big"))
        for at in places
    ]


@needs_holding
def test_an_answer_that_ends_before_all_was_read_is_no_reset(alone, tmp_path):
    """Both have sent their ends, the client's is not acknowledged, and it must find somebody."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        ends = stack.enter_context(relayed(tmp_path, listener.getsockname()[1], "strict"))
        with ends.client() as client, listener.accept()[0] as server:
            data = random.Random(8).randbytes(600_000)
            send_all(client, data)
            until(lambda: ends.status()["bytes_sent"] == len(data), "all is joined")
            server.sendall(b"enough")
            server.shutdown(socket.SHUT_WR)
            assert client.recv(100) == b"enough"
            before = sent_again(client)
            until(
                lambda: sent_again(client) >= before + 2 or state(client) == CLOSED,
                "it sends again what is not acknowledged",
            )
            assert acknowledged(client) <= received(server) < len(data)
            assert state(client) != CLOSED, ends.seen(client, server)
            assert b"".join(iter(lambda: server.recv(1 << 18), b"")) == data
            until(lambda: acknowledged(client) == len(data) + 1, "all, and its end")
            assert client.recv(1) == b""
        until(lambda: ends.status()["ended"] == 1, "it has ended in order")


def told_by(ends: Ends) -> int:
    """What the join end says that the server of its one flow has acknowledged."""
    acknowledged: int = ends.status()["flows"][0]["bytes_acknowledged"]
    return acknowledged


def stuck(client: socket.socket) -> int:
    """Sends until nothing more is taken for half a second; how much: a megabyte at least."""
    client.setblocking(False)
    count, waited = 0, 0
    while waited < 50 or count < 1 << 20:
        try:
            count += client.send(bytes(1 << 16))
            waited = 0
        except BlockingIOError:
            waited += 1
            threading.Event().wait(0.01)
    client.setblocking(True)
    client.settimeout(PATIENCE_S)
    return count


@needs_holding
@pytest.mark.parametrize("linked", ["told", "strict"])
def test_a_server_that_does_not_read_has_its_client_wait(alone, tmp_path, linked):
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        ends = stack.enter_context(relayed(tmp_path, listener.getsockname()[1], linked))
        with ends.client() as client, listener.accept()[0] as server:
            sent = stuck(client)
            client.shutdown(socket.SHUT_WR)
            if linked == "told":
                # The oracle sees it: the relay's buffers are acknowledged without it.
                assert acknowledged(client) > received(server)
            else:
                until(lambda: acknowledged(client) == received(server), "what the server has")
                # Its end is none of that.
                assert acknowledged(client) < sent and state(client) == FIN_WAIT_1
            until(lambda: ends.status()["flows"][0]["bytes_acknowledged"] > 0, "it is told")
            assert ends.status()["flows"][0]["bytes_acknowledged"] <= received(server) < sent
            answer(server)
            assert client.recv(100) == hashlib.sha256(bytes(sent)).digest()
            until(lambda: acknowledged(client) == sent + 1, "all, and its end")


@needs_holding
@pytest.mark.parametrize("linked", ["told", "strict"])
def test_a_server_that_is_gone_has_nothing_more_acknowledged(alone, tmp_path, linked):
    """T-A4: the server's leg is cut; a client of other proxies is acknowledged what they have."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening())
        gone = listener.getsockname()[1]
        ends = stack.enter_context(relayed(tmp_path, gone, linked))
        with ends.client() as client, listener.accept()[0] as server:
            client.sendall(bytes(1_000_000))
            while received(server) < 1_000_000:
                server.recv(1 << 18)
            until(lambda: acknowledged(client) == 1_000_000, "all so far")
            until(lambda: told_by(ends) == 1_000_000, "it says so")
            if linked == "told":
                tc("qdisc", "add", "dev", "lo", "clsact")
            lose(tmp_path, f"port(packet,0)=={gone}||port(packet,2)=={gone}")
            sent = 1_000_000 + stuck(client)
            if linked == "told":
                assert 1_000_000 < acknowledged(client) < sent
            else:
                before = sent_again(client)
                until(lambda: sent_again(client) > before, "it tries again")
                assert acknowledged(client) == 1_000_000
            assert received(server) == told_by(ends) == 1_000_000


@needs_holding
@pytest.mark.parametrize("linked", ["literal", "strict"])
def test_by_the_printed_rule_one_server_pays_for_anothers_client(alone, tmp_path, linked):
    """Literal promises all clients together what all servers together have, and no one his own."""
    size = 100_000  # What is not acknowledged to the quick one must have room in its window.
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        ends = stack.enter_context(relayed(tmp_path, listener.getsockname()[1], linked))
        slow, unread = stack.enter_context(ends.client()), stack.enter_context(listener.accept()[0])
        sent = stuck(slow)
        quick = stack.enter_context(ends.client())
        served = stack.enter_context(listener.accept()[0])
        for work in ((send_all, quick, bytes(size)), (answer, served)):
            threading.Thread(target=work[0], args=work[1:], daemon=True).start()

        def told() -> int:
            all_told = acknowledged(slow) + acknowledged(quick)
            assert all_told <= received(unread) + received(served)
            return acknowledged(quick)

        assert quick.recv(100) == hashlib.sha256(bytes(size)).digest()
        if linked == "literal":
            until(lambda: told() < acknowledged(slow) - received(unread), "it is paid for")
            # What was paid is missing to who has paid, until the other server has taken all.
            assert told() < size
        else:
            until(lambda: told() == size + 1, "all, and its end")
            assert acknowledged(slow) <= received(unread) < sent
        slow.shutdown(socket.SHUT_WR)
        answer(unread)
        assert slow.recv(100) == hashlib.sha256(bytes(sent)).digest()
        until(lambda: told() == size + 1 and acknowledged(slow) == sent + 1, "all, and the ends")


@needs_holding
@pytest.mark.parametrize(("listen", "to"), [("[::1]", "::1"), ("[::]", HERE)])
def test_clients_of_ipv6_and_those_that_look_like_it(alone, tmp_path, listen, to):
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening())
        server_port = listener.getsockname()[1]
        ends = stack.enter_context(relayed(tmp_path, server_port, "strict", listen))
        with ends.client(to) as client, listener.accept()[0] as server:
            threading.Thread(target=answer, args=(server,), daemon=True).start()
            send_all(client, bytes(3_000_000))
            assert client.recv(100) == hashlib.sha256(bytes(3_000_000)).digest()
            assert client.recv(1) == b""
            until(lambda: acknowledged(client) == 3_000_001, "all, and its end")


@needs_holding
def test_a_client_that_waits_and_tries_again_gets_no_duplicates(alone, tmp_path):
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        ends = stack.enter_context(relayed(tmp_path, listener.getsockname()[1], "strict"))
        with ends.client() as client, listener.accept()[0] as server:
            stuck(client)
            until(lambda: acknowledged(client) == received(server), "what the server has")
            with packets_from(ends.port) as packets:
                before = sent_again(client)
                until(lambda: sent_again(client) >= before + 2, "it tries again")
                seen = [packet[4:16] for packet in tcp_of(packets)]
            # The same number and window twice would be the sign of a loss.
            assert len(seen) == len(set(seen))


@needs_holding
def test_a_client_that_waits_is_asked_whether_it_is_there(alone, tmp_path):
    """Nothing else can be said to it: without that it would be taken for one that is gone."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listening())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        at = listener.getsockname()[1]
        more = ("--gone-after", "5")
        ends = stack.enter_context(relayed(tmp_path, at, "strict", HERE, more))
        packets = stack.enter_context(packets_from(ends.port))
        with ends.client() as client, listener.accept()[0] as server:
            sent = stuck(client)
            until(lambda: acknowledged(client) == received(server), "what the server has")
            numbers: set[int] = set()

            def is_asked() -> bool:
                # Nothing was sent to it: a question has the number before that of all the others.
                found = [x for x in tcp_of(packets) if not x[13] & SYN]
                numbers.update(int.from_bytes(x[4:8], "big") for x in found)
                return len(numbers) == 2

            until(is_asked, "a question")
            assert max(numbers) - min(numbers) in (1, (1 << 32) - 1)
            assert acknowledged(client) == received(server) < sent
            client.shutdown(socket.SHUT_WR)
            answer(server)
            assert client.recv(100) == hashlib.sha256(bytes(sent)).digest()


def tcp_of(packets: socket.socket) -> Iterator[bytes]:
    """The TCP headers of what came in."""
    with contextlib.suppress(BlockingIOError):
        while True:
            packet, (_, _, kind, *_) = packets.recvfrom(128)
            if kind == socket.PACKET_HOST:
                yield packet[(packet[0] & 15) * 4 :]


@needs_holding
def test_many_clients_at_once_are_served_both_ways(alone, tmp_path):
    sizes = [0, 1, 1_000, 70_000, 300_000, 1_000_000] * 5
    with listening() as listener, relayed(tmp_path, listener.getsockname()[1], "strict") as ends:

        def serve() -> None:
            for _ in sizes:
                server = listener.accept()[0]
                threading.Thread(target=answer_and_close, args=(server,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        clients = [ends.client() for _ in sizes]
        for client, size in zip(clients, sizes, strict=True):
            threading.Thread(target=send_all, args=(client, bytes(size)), daemon=True).start()
        for client, size in zip(clients, sizes, strict=True):
            assert client.recv(100) == hashlib.sha256(bytes(size)).digest()
            assert client.recv(1) == b""
            client.close()
        until(lambda: ends.status()["ended"] == len(sizes), "all have ended in order")
        assert ends.status()["broken"] == 0


def speaker(keys: Path, name: str, protocol: int) -> ssl.SSLContext:
    """One who wants the other end to have a certificate of the same authority."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(keys / "ca.pem")
    context.load_cert_chain(keys / f"{name}.pem", keys / f"{name}.key")
    return context


@needs_holding
@pytest.mark.parametrize("linked", [None, "strict"])
def test_tls_passes_as_it_is(alone, tmp_path, linked):
    """Each end sees the other's certificate, and their secrets are the same: nobody is between."""
    keys, size = tmp_path / "keys", 1_000_000
    subprocess.run([*WEIR[:-1], "keys", "init", keys], check=True, capture_output=True)
    seen = []

    def serve() -> None:
        of_server = speaker(keys, "server", ssl.PROTOCOL_TLS_SERVER)
        with of_server.wrap_socket(listener.accept()[0], server_side=True) as server:
            digest, left = hashlib.sha256(), size
            while left and (data := server.recv(left)):
                digest.update(data)
                left -= len(data)
            server.sendall(digest.digest())
            seen.append((server.getpeercert(True), server.get_channel_binding()))

    with listening() as listener, relayed(tmp_path, listener.getsockname()[1], linked) as ends:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        of_client = speaker(keys, "client", ssl.PROTOCOL_TLS_CLIENT)
        # The secret of a connection can be told up to this version.
        of_client.maximum_version = ssl.TLSVersion.TLSv1_2
        data = random.Random(4).randbytes(size)
        with of_client.wrap_socket(ends.client()) as client:
            client.sendall(data)
            assert client.recv(100) == hashlib.sha256(data).digest()
            secret = client.get_channel_binding()
        thread.join(PATIENCE_S)
        pem = (keys / "client.pem").read_text()
        assert seen == [(ssl.PEM_cert_to_DER_cert(pem), secret)] and secret


def answer_and_close(server: socket.socket) -> None:
    with server:
        answer(server)


@needs_holding
def test_resets_pass_both_ways(alone, tmp_path):
    at_once = struct.pack("ii", 1, 0)
    with listening() as listener, relayed(tmp_path, listener.getsockname()[1], "strict") as ends:
        with ends.client() as client:
            client.sendall(bytes(100_000))
            server = listener.accept()[0]
            server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            server.close()
            with pytest.raises(ConnectionError):
                until(lambda: client.recv(1), "a reset")
        client = ends.client()
        client.sendall(bytes(100_000))
        with listener.accept()[0] as server:
            server.settimeout(PATIENCE_S)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            client.close()
            with pytest.raises(ConnectionError):
                while server.recv(1 << 16):
                    pass
        until(lambda: ends.status()["flows"] == [], "nothing is left")


@needs_holding
def test_a_client_whose_interface_is_not_covered_is_reset(alone, tmp_path):
    with listening() as listener, relayed(tmp_path, listener.getsockname()[1], "strict") as ends:
        tc("qdisc", "del", "dev", "lo", "clsact")
        # It may be so early that nobody has seen it connected.
        with pytest.raises(ConnectionError), ends.client() as client:
            client.recv(1)
        words = "not held at its interface"
        until(lambda: any(words in why for why in ends.status()["reasons"]), "it is said")


@needs_holding
def test_a_relay_that_is_killed_resets_its_clients_and_goes_on_holding(alone, tmp_path):
    with listening() as listener, relayed(tmp_path, listener.getsockname()[1], "strict") as ends:
        with ends.client() as client, listener.accept()[0]:
            ends.join.kill()
            with pytest.raises(ConnectionError):
                client.recv(1)
        ends.join.wait(PATIENCE_S)
        assert filters() == 1


@needs_holding
def test_what_a_killed_relay_has_left_is_replaced_and_can_be_cleared(alone):
    port = free()
    command = [*WEIR, "join", "--listen", f"{HERE}:{port}", "--split", f"{HERE}:1", "--json"]
    command += ["--linked-ack", "strict"]
    clear = [*WEIR, "clear", str(port)]
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as join:
            assert join.stdout and join.stdout.readline()
            assert filters() == 1
            told = subprocess.run(clear, capture_output=True, text=True, check=False)
            assert told.returncode == 2 and "another relay holds" in told.stderr
            join.send_signal(signal.SIGKILL)
            join.wait(PATIENCE_S)
        assert filters() == 1
    subprocess.run(clear, check=True)
    assert filters() == 0


def filters() -> int:
    """How many there are on the loopback interface."""
    return tc("filter", "show", "dev", "lo", "egress").count("handle 0x")


def free() -> int:
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        port: int = probe.getsockname()[1]
        return port


@needs_holding
@pytest.mark.parametrize(("linked", "kills"), [("told", 6), ("literal", 10), ("strict", 10)])
def test_whoever_is_killed_nothing_acknowledged_is_lost(linked, kills):
    command = [sys.executable, "-m", "studies.rig.killed", "--kills", str(kills), "--seed", "3"]
    told = subprocess.run(
        [*command, "--linked-ack", linked], capture_output=True, check=True, timeout=PATIENCE_S * 4
    )
    found = json.loads(told.stdout)
    assert sum(found["kills"].values()) + found["unseen"] == kills
    assert found["acknowledged_bytes"] > 0
    # Without holding there is some each time that a relay dies: what it had in its buffers; by the
    # printed rule what a fast server has paid for a slow one's client.
    assert (found["undelivered_bytes"] > 0) == (linked != "strict")


def test_where_it_cannot_be_had_it_is_said(tmp_path):
    command = [*WEIR, "join", "--listen", f"{HERE}:0", "--split", f"{HERE}:1"]
    told = subprocess.run(
        [*command, "--linked-ack", "strict"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(tmp_path)},
        timeout=PATIENCE_S,
    )
    assert told.returncode != 0
    assert "acknowledgements cannot be held here" in told.stderr
    assert "clang is not installed" in told.stderr
