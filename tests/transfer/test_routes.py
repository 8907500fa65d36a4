"""Several routes: one transfer over several ports of a server, each at a rate of its own."""

import contextlib
import json
import os
import re
import socket
import subprocess
import threading

import pytest
from namespace_rig import namespace as namespace
from namespace_rig import tc
from rig import PATIENCE_S, WEIR, told_by_ss, until
from transfer_world import weir

from weir import Rate, Time
from weir.cli import main
from weir.errors import BadInput
from weir.transfer import PAUSED, Route, Server, Spare, Transfer

MIB = 2**20
SIZE = 6 * MIB
PATIENCE = Time(f"{PATIENCE_S} s")


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").write_bytes(os.urandom(SIZE))
    return tmp_path / "source"


@pytest.fixture
def ruled(namespace):
    """A network of its own, where rules come before what is local."""
    tc("link", "set", "lo", "up", program="ip")
    tc("rule", "add", "pref", "100", "lookup", "local", program="ip")
    tc("rule", "del", "pref", "0", program="ip")


@pytest.fixture
def server(tmp_path):
    (tmp_path / "root").mkdir()
    with Server([tmp_path / "root"], listen="127.0.0.1:0", ports=3, keys=None) as server:
        yield server


@pytest.fixture
def path_to():
    """Makes relays; all are closed in the end."""
    made = []

    def make(port, **options):
        made.append(Path(port, **options))
        return made[-1]

    yield make
    for path in made:
        path.close()


def send(source, server, routes, **choices):
    place = "{}:{}/copy".format(*server.address)
    return Transfer.send([source], place, keys=None, routes=routes, **choices)


def by_port(transfer, shown):
    """What iproute2 shows of the data connections to each port."""
    found = {}
    for address, port, peer, peers_port in transfer.ports():
        text = told_by_ss((address, port), (peer, peers_port))
        match = re.search(shown, text)
        found.setdefault(peers_port, []).append(match[1] if match else None)
    return found


class Path:
    """A relay in front of one port, which can be cut: connections break, and no more are taken."""

    def __init__(self, port: int, *, is_open: bool = True) -> None:
        self.far = ("127.0.0.1", port)
        self.listener = socket.socket()
        # What is taken and not carried on is little.
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.listener.bind(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.carried = 0
        self.sockets: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        if is_open:
            self.open()

    def open(self):
        self.listener.listen()
        self.run(self.serve)

    def run(self, work, *arguments):
        self.threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self.threads[-1].start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.far)
                self.sockets += [near, far]
                for one, other, counts in ((near, far, True), (far, near, False)):
                    self.run(self.carry, one, other, counts)

    def carry(self, one, other, counts):
        with contextlib.suppress(OSError):
            while piece := one.recv(1 << 16):
                other.sendall(piece)
                self.carried += len(piece) if counts else 0
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def close(self):
        self.cut()
        for thread in self.threads:
            thread.join()
        for one in self.sockets:
            one.close()

    def cut(self):
        # A close alone would not wake who accepts.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def test_a_server_has_as_many_ports_as_it_is_asked_for(tmp_path, server):
    assert len(set(server.ports)) == 3
    assert server.ports[0] == server.address[1]
    for port in server.ports:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
            pass
    server.stop()
    for port in server.ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    with pytest.raises(BadInput, match="1 to 64"):
        Server([tmp_path / "root"], listen="127.0.0.1:0", ports=65, keys=None)
    with pytest.raises(BadInput, match="not so many ports"):
        Server([tmp_path / "root"], listen="127.0.0.1:65535", ports=2, keys=None)


def test_weir_serve_tells_its_ports(tmp_path, source):
    (tmp_path / "root").mkdir()
    command = ["serve", "--root", tmp_path / "root", "--insecure", "--listen", "127.0.0.1:0"]
    command = [WEIR, *map(str, command), "--ports", "2", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            event = json.loads(process.stdout.readline())
            assert event["ports"][0] == event["port"]
            routes = [x for port in event["ports"] for x in ("--route", f"{port}=80 Mbit/s")]
            place = f"127.0.0.1:{event['port']}/copy"
            sent = weir("send", source, place, "--insecure", *routes)
        finally:
            process.terminate()
    assert sent.returncode == 0, sent.stderr
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()


def test_one_file_goes_over_all_routes_each_at_its_rate(tmp_path, source, server, path_to):
    paths = [path_to(port) for port in server.ports]
    routes = [
        Route(path.port, Rate(rate))
        for path, rate in zip(paths, ("9 Mbit/s", "3 Mbit/s", "0 bit/s"), strict=True)
    ]
    transfer = send(source, server, routes)
    transfer.start()
    assert transfer.wait(PATIENCE)
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()
    # A chunk is a sixth of the file; a paused route has handshakes alone.
    assert paths[0].carried > paths[1].carried > MIB // 2
    assert paths[2].carried < MIB // 8
    assert sum(path.carried for path in paths) < SIZE + MIB


def test_rates_change_in_place(source, server):
    first, second, third = server.ports
    routes = [Route(first, Rate("8 Mbit/s")), Route(second, PAUSED)]
    transfer = send(source, server, routes, streams=2)
    transfer.start()
    paced = r"pacing_rate \d+bps/(\d+)bps"
    try:
        until(lambda: by_port(transfer, paced).get(first) == ["4000000"] * 2)
        assert len(by_port(transfer, paced)[second]) == 2
        before = transfer.ports()
        told = [Route(first, PAUSED), Route(second, Rate("16 Mbit/s")), Route(third, None)]
        transfer.set_routes(told)
        until(lambda: by_port(transfer, paced).get(second) == ["8000000"] * 2)
        transfer.set_rate(Rate("6 Mbit/s"))
        until(lambda: by_port(transfer, paced).get(second) == ["1500000"] * 2)
        assert transfer.ports() == before
        transfer.set_rate(None)
        assert transfer.wait(PATIENCE)
    finally:
        transfer.cancel()


def test_spare_connections_are_beside_the_first_route(source, server):
    # Long enough that there is time to begin something by a connection whose speed is not known.
    source.write_bytes(os.urandom(16 * MIB))
    routes = [Route(port, Rate("4 Mbit/s")) for port in server.ports]
    transfer = send(source, server, routes, spare=Spare("le", streams=2, rate=Rate("80 Mbit/s")))
    transfer.start()
    assert transfer.wait(PATIENCE)
    ports = [peers_port for *_, peers_port in transfer.ports()]
    assert ports == [*server.ports, server.ports[0], server.ports[0]]
    assert transfer.progress().bytes_spare.count > 0


def test_a_route_that_breaks_is_not_the_transfers_end(tmp_path, source, server, path_to):
    paths = [path_to(port) for port in server.ports[:2]]
    routes = [Route(path.port, Rate("16 Mbit/s")) for path in paths]
    transfer = send(source, server, routes)
    transfer.start()
    until(lambda: paths[1].carried > MIB // 2)
    paths[1].cut()
    assert transfer.wait(PATIENCE)
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()
    notices = transfer.take_notices()
    lost = f"port {paths[1].port} is not reached any more; going on by the others"
    assert lost in notices, notices


def test_a_route_with_the_control_connection_may_break_too(tmp_path, source, server, path_to):
    paths = [path_to(port) for port in server.ports[:2]]
    routes = [Route(path.port, Rate("16 Mbit/s")) for path in paths]
    transfer = send(source, server, routes, retry=PATIENCE)
    transfer.start()
    until(lambda: paths[1].carried > MIB // 2)
    paths[0].cut()
    assert transfer.wait(PATIENCE)
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()


def test_a_route_whose_packets_are_lost_is_given_up(ruled, tmp_path, source, server):
    transfer = send(source, server, [Route(port, Rate("4 Mbit/s")) for port in server.ports[:2]])
    transfer.start()
    until(lambda: transfer.progress().bytes_done.count > MIB)
    lost = server.ports[0]
    tc("rule", "add", "pref", "50", "dport", str(lost), "blackhole", program="ip")
    notices = []
    until(lambda: notices.extend(transfer.take_notices()) or notices)
    assert notices == [f"port {lost} is not reached any more; going on by the others"]
    transfer.set_rate(None)
    assert transfer.wait(PATIENCE)
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()


def test_a_route_that_is_not_there_is_left_out(tmp_path, source, server):
    with socket.create_server(("127.0.0.1", 0)) as free:
        gone = free.getsockname()[1]
    for ports in ([server.ports[0], gone], [gone, server.ports[0]]):
        transfer = send(source, server, [Route(port) for port in ports])
        transfer.start()
        assert transfer.wait(PATIENCE)
        assert [peers_port for *_, peers_port in transfer.ports()] == [server.ports[0]]
        assert any(f"port {gone} is not reached" in words for words in transfer.take_notices())
        (tmp_path / "root" / "copy").unlink()


def test_a_route_that_has_a_rate_again_is_gone_back_to(tmp_path, source, server, path_to):
    path = path_to(server.ports[1], is_open=False)
    slow = Rate("2 Mbit/s")
    routes = [Route(server.ports[0], slow), Route(path.port, slow)]
    transfer = send(source, server, routes)
    transfer.start()
    notices = []
    lost = f"port {path.port} is not reached any more; going on by the others"
    until(lambda: notices.extend(transfer.take_notices()) or lost in notices)
    path.open()
    transfer.set_routes([Route(path.port, PAUSED)])
    transfer.set_routes([Route(path.port, slow)])
    back = f"port {path.port} is reached again; going on by it too"
    until(lambda: notices.extend(transfer.take_notices()) or back in notices)
    until(lambda: path.carried > MIB // 8)
    transfer.set_rate(None)
    assert transfer.wait(PATIENCE)
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    ("routes", "choices", "why"),
    [
        ([Route(7411), Route(7411)], {}, "twice"),
        ([Route(7411)], {"rate": Rate("1 Mbit/s")}, "no rate beside"),
    ],
)
def test_routes_that_make_no_sense_are_refused(source, routes, choices, why):
    with pytest.raises(BadInput, match=why):
        Transfer.send([source], "127.0.0.1:7411/x", keys=None, routes=routes, **choices)
    with pytest.raises(BadInput, match=r"only what is sent|no rate beside"):
        Transfer.get(["127.0.0.1:7411/x"], source, keys=None, routes=routes, **choices)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--route", "7411"], "PORT=RATE"),
        (["--route", "0=1 Mbit/s"], "PORT=RATE"),
        (["--route", "7411=fast"], "--route"),
        (["--route", "7411=1 Mbit/s", "--rate", "1 Mbit/s"], "either --rate"),
        (["--route", "7411=1 Mbit/s", "--cca", "auto"], "do not go together"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(source, capsys, arguments, why):
    assert main(["send", str(source), "127.0.0.1:7411/x", "--insecure", *arguments]) == 2
    assert why in capsys.readouterr().err
