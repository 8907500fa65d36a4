"""Flows that the controller joins, with the kernel's TCP over switches, relays and all."""

import contextlib
import ctypes
import itertools
import json
import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from join_rig import frame
from rig import PATIENCE_S, WEIR, lab_lacks, until

from weir.control.join.segment import End
from weir.control.join.sources import AWAIT_MAX, BEGIN_MAX
from weir.lab import Lab, parse, switches
from weir.relay import control

CABLES = [("c", "s1"), ("d", "s1"), ("p1", "s1"), ("s1", "s2"), ("p2", "s2"), ("s2", "s")]
SITE = """\
[lab]
name = "joined"
ipv6 = true
[hosts]
c = {}
d = {}
p1 = {}
p2 = {}
s = {}
[routers]
s1 = { kind = "switch" }
s2 = { kind = "switch" }
""" + "".join(f'[[link]]\nends = ["{a}", "{b}"]\nrate = "100 Mbit/s"\n' for a, b in CABLES)
PORT = 8_000
# Rules for first packets: of two clients, to one server by either IP.
FIRST = 4
_LIBC = ctypes.CDLL(None, use_errno=True)
DIRECT = 8_001
# Tells who comes, what their kernel has agreed upon (struct tcp_info), and how much they have sent.
SERVER = f"""
import json, socket, threading
listeners = [
    socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    for port in ({PORT}, {DIRECT})
]
print("listening", flush=True)
def serve(client, address):
    told = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    mss = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    print(json.dumps([address[0].removeprefix("::ffff:"), address[1], told[5], told[6] & 15, mss]),
          flush=True)
    count = 0
    try:
        while data := client.recv(65536):
            count += len(data)
        client.sendall(b"%d" % count)
    except OSError as error:
        print(json.dumps(["broken"]), flush=True)
    client.close()
def accept(listener):
    while True:
        threading.Thread(target=serve, args=listener.accept()).start()
for listener in listeners:
    threading.Thread(target=accept, args=(listener,)).start()
"""


class Site:
    """A lab with its controller, relays and server, each of which can be killed."""

    def __init__(self, lab, folder):
        self.lab, self.folder = lab, folder
        self.network = folder / "network.json"
        self.network.write_text(json.dumps(lab.network()))
        self.servers = [f"{lab.address('s')}:{PORT}", f"[{lab.address6('s')}]:{PORT}"]
        lines = [f"[[aggregate]]\nservers = {json.dumps(self.servers)}"]
        for side, host, more in (("join", "p1", "port = 7600"), ("split", "p2", "")):
            path = folder / f"{side}.sock"
            lines.append(f'[aggregate.{side}]\nhost = "{host}"\ncontrol = "{path}"\n{more}')
        (folder / "join.toml").write_text("\n".join(lines))
        self.running = {}
        self.seen = []
        self.processes = contextlib.ExitStack()
        self.inside = {host: self._opened(host) for host in ("c", "d")}

    def _opened(self, host):
        """The network namespace of a host."""
        held = self.lab.popen(host, ["sleep", "inf"])
        self.processes.callback(self._end, held)
        # The program takes the place of another one, which enters the host.
        until(lambda: Path(f"/proc/{held.pid}/comm").read_text() == "sleep\n")
        namespace = os.open(f"/proc/{held.pid}/ns/net", os.O_RDONLY)
        self.processes.callback(os.close, namespace)
        return namespace

    def start(self, *names):
        """Starts some of "control", "join", "split" and "server"."""
        for name in names:
            process = self.running[name] = getattr(self, f"_{name}")()
            self.processes.callback(self._end, process)
        for name in names:
            if (said := self.running[name].stdout) is not None:
                assert "listening" in said.readline()
        if "server" in names:
            threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with contextlib.suppress(ValueError):  # it was closed
            for line in self.running["server"].stdout:
                self.seen.append(json.loads(line))

    def kill(self, name):
        self._end(self.running.pop(name))

    def close(self):
        self.processes.close()

    def _end(self, process):
        process.kill()
        process.wait(PATIENCE_S)
        if process.stdout:
            process.stdout.close()

    def _control(self):
        words = [WEIR, "control", "serve", "--network", str(self.network), "--listen"]
        words += [f"unix:{self.folder}/c", "--join", str(self.folder / "join.toml")]
        self.log = self.folder / "control.log"
        with self.log.open("a") as log:
            return subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)

    def _join(self):
        ends = ["--listen", "[::]:7600", "--split", f"{self.lab.address('p2')}:7500"]
        return self._relay("p1", "join", *ends)

    def _split(self):
        ends = ["--listen", "[::]:7500", "--from", f"{self.lab.address('p1')}"]
        return self._relay("p2", "split", *ends, *(x for y in self.servers for x in ("--to", y)))

    def _relay(self, host, end, *words):
        words = [WEIR, "relay", end, *words, "--announced", "--control"]
        words.append(str(self.folder / f"{end}.sock"))
        return self.lab.popen(host, words, stdout=subprocess.PIPE, text=True)

    def _server(self):
        words = [sys.executable, "-c", SERVER]
        return self.lab.popen("s", words, stdout=subprocess.PIPE, text=True)

    def status(self, end):
        return control.ask(self.folder / f"{end}.sock", {})

    def announced(self, end):
        question = {"announce": [], "all": True}
        return control.ask(self.folder / f"{end}.sock", question)["announced"]

    def rules(self):
        """The rules of flows, of all switches."""
        found = []
        for bridge in self.lab.switches().values():
            command = ["ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows"]
            said = subprocess.run(
                [*command, str(bridge.management)], capture_output=True, text=True, check=True
            ).stdout
            found += re.findall(r"priority=45000,.*", said)
        return found

    def rules_of(self, client):
        """Those of them that are of a client's connection, in order."""
        port = client.getsockname()[1]
        return sorted(x for x in self.rules() if re.search(rf"\b{port}\b", x))

    def is_ready(self):
        """Whether the controller has heard of all, and there is an aggregate."""
        said = self.log.read_text()
        are_known = said.count(" does not answer") == said.count(" answers\n")
        first = self.rules_of_first_packets()
        return len(first) == FIRST and are_known and self.status("join")["is_connected"]

    def rules_of_first_packets(self):
        bridge = self.lab.switches()["s1"]
        command = ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", str(bridge.management)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return re.findall(r"priority=42000,.*tcp_flags=\+syn-ack", said)

    def client(self, has_ipv6=False, port=PORT, options=(), host="c"):
        """A connection of a client's to the server."""
        address = (self.lab.address6 if has_ipv6 else self.lab.address)("s")
        return inside(self.inside[host], lambda: connected(address, port, options))


def inside(namespace, work):
    """What `work` returns in a network namespace; its sockets stay there."""
    found = []

    def enter():
        try:
            assert _LIBC.setns(namespace, 0x40000000) == 0
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def connected(address, port, options):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    client = socket.socket(family)
    client.settimeout(PATIENCE_S)
    for option, value in options:
        client.setsockopt(socket.IPPROTO_TCP, option, value)
    try:
        client.connect((address, port))
    except OSError:
        client.close()
        raise
    return client


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Everything runs, and is joined."""
    if lacking := switches.missing() or lab_lacks():
        pytest.skip(f"a lab of switches needs {lacking}")
    folder = tmp_path_factory.mktemp("joined")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEIR_RUNTIME_DIR", str(folder / "run"))
        with Lab.up(parse(SITE), controller=f"unix:{folder}/c") as lab:
            site = Site(lab, folder)
            try:
                site.start("control", "server", "split")
                until(lambda: len(site.rules_of_first_packets()) == FIRST)
                site.start("join")
                until(site.is_ready)
                yield site
            finally:
                site.close()


def exchange(client, size=200_000):
    """Sends something, and how much the server says that it was."""
    client.sendall(bytes(size))
    client.shutdown(socket.SHUT_WR)
    return int(client.recv(100))


@pytest.mark.parametrize("has_ipv6", [False, True])
def test_a_client_is_joined_and_its_server_sees_it(site, has_ipv6):
    before = site.status("join")["bytes_sent"]
    with site.client(has_ipv6) as client:
        assert client.getpeername()[:2][1] == PORT
        assert len(site.rules_of(client)) == 4
        assert exchange(client) == 200_000
        # Neither is the port another one.
        here = list(client.getsockname()[:2])
    until(lambda: site.seen and site.seen[-1][:2] == here)
    until(lambda: site.status("join")["bytes_sent"] - before == 200_000)
    # Both ends are done, and so are switches and relays.
    until(lambda: not site.rules())
    until(lambda: not any(site.announced(end) for end in ("join", "split")))


def nft_rules():
    page = (Path(__file__).parents[2] / "docs" / "relay.md").read_text(encoding="utf-8")
    return [x for x in re.findall(r"^nft .*$", page, re.MULTILINE) if " inet weir" in x]


OFFERS = [
    ("", ()),
    ("", ((socket.TCP_MAXSEG, 1_000), (socket.TCP_WINDOW_CLAMP, 65_535 << 3))),
    ("sack", ((socket.TCP_WINDOW_CLAMP, 65_535 << 5),)),
    ("timestamps", ()),
    ("window_scaling", ((socket.TCP_MAXSEG, 536),)),
    ("sack timestamps window_scaling", ()),
]


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed (Debian nftables)")
@pytest.mark.parametrize("has_ipv6", [False, True])
def test_the_server_is_offered_what_the_client_offers(site, has_ipv6):
    """T-A6: as its kernel sees both: MSS, scale of windows, SACK and timestamps."""
    for line in ["nft add table inet weir", "nft delete table inet weir", *nft_rules()]:
        site.lab.run("p2", shlex.split(line), check=True)
    seen = {}
    for lacking, options in OFFERS:
        for name in ("sack", "timestamps", "window_scaling"):
            has_it = int(name not in lacking)
            site.lab.run("c", ["sysctl", "-qw", f"net.ipv4.tcp_{name}={has_it}"], check=True)
        for port in (DIRECT, PORT):
            with site.client(has_ipv6, port, options) as client:
                here = list(client.getsockname()[:2])
                told = until(lambda here=here: [x for x in site.seen if x[:2] == here])
                seen[lacking, options, port] = told[0][2:]
        assert seen[lacking, options, PORT] == seen[lacking, options, DIRECT], lacking
    # They are not all the same anyway.
    assert len({tuple(x) for x in seen.values()}) == len(OFFERS)


def test_a_client_that_resets_leaves_nothing(site):
    with site.client() as client:
        client.sendall(b"something")
        until(lambda: site.status("split")["aggregates"][0]["flows"])
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: site.seen[-1] == ["broken"])
    until(lambda: not site.rules())


def test_a_server_that_refuses_resets_the_client(site):
    site.kill("server")
    with pytest.raises(ConnectionResetError), site.client() as client:
        client.recv(1)
    until(lambda: any("refuses" in x for x in site.status("join")["reasons"]))
    site.start("server")


def test_flows_go_on_without_a_controller_and_the_next_one_knows_them(site):
    with site.client() as client:
        client.sendall(b"before")
        before = site.rules_of(client)
        assert len(before) == 4
        site.kill("control")
        site.log.unlink()
        client.sendall(b" and without it")
        until(lambda: site.status("join")["flows"][0]["bytes_sent"] == 21)
        site.start("control")
        # It lets another one begin, and leaves this one alone.
        with site.client() as other:
            assert exchange(other) == 200_000
        assert site.rules_of(client) == before
        assert exchange(client, 79) == 100
    until(lambda: not site.rules())


@pytest.mark.parametrize(("end", "host"), [("join", "p1"), ("split", "p2")])
def test_a_relay_that_is_killed_has_its_clients_reset(site, end, host):
    with site.client() as client:
        client.sendall(b"something")
        until(lambda: site.status("join")["flows"])
        here = client.getsockname()
        site.kill(end)
        with pytest.raises(ConnectionResetError):
            while client.recv(1):
                pass
    until(lambda: f"the {end} end at {host}" in site.log.read_text())
    if end == "split":
        until(lambda: any(f":{here[1]} to " in x for x in site.status("join")["reasons"]))
    # Who comes now is told at once.
    with pytest.raises(ConnectionRefusedError):
        site.client()
    site.start(end)
    until(site.is_ready)
    with site.client() as client:
        assert exchange(client) == 200_000


def syns(source, target, ports):
    """First packets of connections, without what is before their IP header.

    Checksums are right: a server would answer them.
    """
    for port in ports:
        yield frame(End(source, port), End(target, PORT))[14:]


def flood(packets, stop):
    """Sends them again and again, as fast as one can; how many went."""
    count = 0
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        for packet in itertools.cycle(packets):
            if stop.is_set():
                return count
            with contextlib.suppress(OSError):  # The interface takes no more just now.
                raw.sendto(packet, (socket.inet_ntoa(packet[16:20]), 0))
                count += 1


def test_a_host_that_floods_with_first_packets_keeps_nobody_out(site):
    """As many as a host can send, from its address and from others'."""
    until(lambda: not site.rules())
    client, server = site.lab.address("c"), site.lab.address("s")
    packets = [*syns(client, server, range(10_000, 13_000))]
    packets += syns("10.250.0.1", server, range(10_000, 10_050))
    stop, sent = threading.Event(), []
    thread = threading.Thread(
        target=lambda: sent.append(inside(site.inside["c"], lambda: flood(packets, stop))),
        daemon=True,
    )
    thread.start()
    try:
        until(lambda: len([x for x in site.rules() if f"nw_src={client}," in x]) > 100)
        for _ in range(3):
            with site.client(host="d") as other:
                assert exchange(other) == 200_000
        rules = site.rules()
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert sent[0] > len(packets)
    # Four rules each, and those that are being added and taken away.
    assert len(rules) <= 4 * (AWAIT_MAX + 3 * BEGIN_MAX)
    assert not any("10.250.0.1" in rule for rule in rules)
    assert "does not answer" not in site.log.read_text().rpartition(" answers\n")[2]
