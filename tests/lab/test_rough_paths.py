"""Paths as they are at times: transfers go on, and say what is wrong."""

import json
import os
import re
import subprocess
import sys
import threading

import pytest
from rig import until

SOURCE_BYTES = 5 << 20
SILENCE_S = 5  # the least that may be asked for
PATIENCE_S = 120.0

SERVE = """
import sys
from weir import Time
from weir.transfer import Server
with Server([sys.argv[1]], listen=sys.argv[2], keys=None, silence=Time(sys.argv[3])):
    print("ready", flush=True)
    sys.stdin.read()
"""
SEND = """
import json, sys
from weir import Rate, Time
from weir.transfer import Transfer
patience = dict(silence=Time(sys.argv[3]), retry=Time("90 s"))
transfer = Transfer.send(sys.argv[1:2], sys.argv[2], keys=None, rate=Rate("16 Mbit/s"), **patience)
transfer.start()
while not transfer.wait(Time("50 ms")):
    told = {"durable": transfer.progress().bytes_durable.count, "notices": transfer.take_notices()}
    print(json.dumps(told), flush=True)
print(json.dumps({"durable": -1, "notices": transfer.take_notices()}), flush=True)
"""

# Each client has a way of its own to the router in the middle; one leads over a narrow link.
CLIENTS = ("cut", "deaf", "nat", "moved", "lossy", "narrow")
STAR = """
[lab]
name = "rough"
[hosts]
server = {{}}
{clients}
[routers]
middle = {{}}
bend = {{}}
[[link]]
ends = ["middle", "server"]
[[link]]
name = "narrow"
ends = ["bend", "middle"]
mtu = 1400
"""
LINE = """
[[link]]
name = "line-{name}"
ends = ["{name}", "{end}"]
delay = "2 ms"
{more}
"""


def star():
    lines = dict.fromkeys(CLIENTS, ("middle", ""))
    lines |= {"lossy": ("middle", 'loss = "5 %"'), "narrow": ("bend", "")}
    clients = "\n".join(f"{name} = {{}}" for name in CLIENTS)
    return STAR.format(clients=clients) + "".join(
        LINE.format(name=n, end=e, more=m) for n, (e, m) in lines.items()
    )


class Client:
    """A transfer from one host: what it has told so far."""

    def __init__(self, lab, name, source, place):
        self.name, self.durable, self.notices = name, 0, []
        command = [sys.executable, "-c", SEND, str(source), place, f"{SILENCE_S} s"]
        self.process = lab.popen(name, command, stdout=subprocess.PIPE, text=True)
        self.listener = threading.Thread(target=self.listen)
        self.listener.start()

    def listen(self):
        for line in self.process.stdout:
            told = json.loads(line)
            self.durable = told["durable"]
            self.notices += told["notices"]

    def tries_again(self):
        return self.process.poll() is not None or any("trying again" in x for x in self.notices)


def shell(lab, node, *commands):
    lab.run(node, ["sh", "-ec", "\n".join(commands)], check=True)


def forget(lab, client):
    """The middle forgets the connections that there are, as a NAT does."""
    told = lab.run(client, ["ss", "-Htn"], stdout=subprocess.PIPE, text=True, check=True).stdout
    ports = {line.split()[3].rsplit(":", 1)[1] for line in told.splitlines()}
    assert ports
    rules = [f"{end} {port}" for port in sorted(ports) for end in ("sport", "dport")]
    shell(lab, "middle", *(f"ip rule add pref 1 ipproto tcp {rule} blackhole" for rule in rules))


def move(lab, client, new="10.99.0.1"):
    """The client has another address from now on."""
    old, server = lab.address(client), lab.address("server")
    shell(
        lab,
        client,
        f"ip address add {new}/32 dev lo",
        f"ip route replace {server} dev {lab.device(client, f'line-{client}')} src {new}",
        f"ip address del {old}/32 dev lo",
    )
    shell(lab, "middle", f"ip route add {new} dev {lab.device('middle', f'line-{client}')}")
    shell(lab, "server", f"ip route add {new} dev {lab.device('server', 'middle-server')}")


def hush(lab, *routers):
    """Routers that drop what is too large and say nothing, to anybody."""
    for router in routers:
        for host in ("server", "narrow"):
            address = lab.address(host)
            shell(lab, router, f"ip rule add pref 1 iif lo to {address} blackhole")


def test_transfers_go_on_over_rough_paths_and_say_what_is_wrong(lab_of, tmp_path):
    source, root = tmp_path / "source", tmp_path / "root"
    source.write_bytes(os.urandom(SOURCE_BYTES))
    root.mkdir()
    lab = lab_of(star())
    hush(lab, "middle", "bend")
    listen = f"{lab.address('server')}:7411"
    serve = [sys.executable, "-c", SERVE, str(root), listen, f"{SILENCE_S} s"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with lab.popen("server", serve, **pipes) as server:
        assert server.stdout.readline()
        clients = {name: Client(lab, name, source, f"{listen}/{name}") for name in CLIENTS}
        try:
            broken = [clients[name] for name in ("cut", "deaf", "nat", "moved")]
            until(lambda: all(one.durable for one in broken), PATIENCE_S)
            lab.cut("line-cut")
            deaf = f"pref 1 to {lab.address('deaf')} blackhole"
            shell(lab, "server", f"ip rule add {deaf}")
            forget(lab, "nat")
            move(lab, "moved")
            until(lambda: all(one.tries_again() for one in broken), PATIENCE_S)
            lab.mend("line-cut")
            shell(lab, "server", f"ip rule del {deaf}")
            for one in clients.values():
                one.process.wait(PATIENCE_S)
        finally:
            for one in clients.values():
                one.process.kill()
                one.process.wait()
                one.listener.join()
                one.process.stdout.close()
            server.kill()
    assert {name: one.process.returncode for name, one in clients.items() if one.notices} == {
        name: 0 for name in CLIENTS if name != "lossy"
    }
    for name in CLIENTS:
        assert (root / name).read_bytes() == source.read_bytes(), (name, clients[name].notices)
    for one in broken:
        assert "has been silent for too long; trying again" in one.notices[0], one.name
    assert "packets of 1500 bytes do not reach" in clients["narrow"].notices[0]
    assert "trying again with packets of 1280 bytes at most" in clients["narrow"].notices[0]


NAMES = """
import json, socket, sys
# Answers every question about an address with the one in the file, if there is any.
with socket.socket(type=socket.SOCK_DGRAM) as names:
    names.bind(("127.0.0.1", 53))
    print("ready", flush=True)
    while True:
        asked, who = names.recvfrom(512)
        end = asked.index(b"\\0", 12) + 5
        is_v4 = asked[end - 4 : end - 2] == b"\\0\\1"
        head = asked[:2] + b"\\x81\\x80" + asked[4:6] + bytes([0, is_v4]) + bytes(4)
        address = socket.inet_aton(open(sys.argv[1]).read())
        answer = b"\\xc0\\x0c\\0\\1\\0\\1" + bytes(4) + b"\\0\\4" + address if is_v4 else b""
        names.sendto(head + asked[12:end] + answer, who)
"""
# Names are asked of this host, which at first has no name server.
OWN_NAMES = """
mount -t tmpfs none "$1"
echo "nameserver 127.0.0.1" > "$1/resolv.conf"
mount --bind "$1/resolv.conf" "$(readlink -f /etc/resolv.conf)"
ip link set lo up
shift
exec "$@"
"""


@pytest.fixture
def alone(tmp_path):
    """Starts programs in one namespace with a loopback device and nothing else."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    folder = tmp_path / "names"
    folder.mkdir()
    inside = ["unshare", "--net", "--mount", "sh", "-ec", OWN_NAMES, "sh", str(folder)]
    holder = subprocess.Popen(
        [*inside, "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline()
    started = []

    def start(*command, **options):
        enter = ["nsenter", "-t", str(holder.pid), "-n", "-m", "--"]
        process = subprocess.Popen(
            [*enter, *map(str, command)], stdout=subprocess.PIPE, text=True, **options
        )
        started.append(process)
        return process

    yield start
    for process in [*started, holder]:
        with process:
            process.kill()


def serving(alone, root, listen):
    server = alone(
        sys.executable, "-c", SERVE, root, listen, f"{SILENCE_S} s", stdin=subprocess.PIPE
    )
    assert server.stdout.readline()
    return server


def test_a_name_server_that_is_away_is_waited_for_and_an_address_may_change(alone, tmp_path):
    source, root, address = tmp_path / "source", tmp_path / "root", tmp_path / "address"
    source.write_bytes(os.urandom(SOURCE_BYTES))
    root.mkdir()
    address.write_text("127.0.0.2")
    server = serving(alone, root, "127.0.0.2:7411")
    sender = alone(sys.executable, "-c", SEND, source, "dtn.example:7411/copy", f"{SILENCE_S} s")
    told = iter(json.loads(line) for line in sender.stdout)
    notices = next(one["notices"] for one in told if one["notices"])
    assert 'no name server says where "dtn.example" is' in notices[0]
    names = alone(sys.executable, "-c", NAMES, address)
    assert names.stdout.readline()
    assert next(one for one in told if one["durable"] > 0)
    # The host moves.
    address.write_text("127.0.0.3")
    server.kill()
    serving(alone, root, "127.0.0.3:7411")
    assert [one["durable"] for one in told][-1] == -1
    assert sender.wait() == 0
    assert (root / "copy").read_bytes() == source.read_bytes()


def test_hosts_with_no_address_but_of_version_6(alone, tmp_path):
    source, root = tmp_path / "source", tmp_path / "root"
    source.write_bytes(os.urandom(1 << 20))
    root.mkdir()
    assert alone("ip", "-4", "address", "flush", "dev", "lo").wait() == 0
    serving(alone, root, "[::1]:7411")
    sender = alone(sys.executable, "-c", SEND, source, "[::1]:7411/copy", f"{SILENCE_S} s")
    sender.communicate(timeout=PATIENCE_S)
    assert sender.returncode == 0
    assert (root / "copy").read_bytes() == source.read_bytes()


def test_idle_connections_say_something_more_often_than_a_nat_forgets(alone, tmp_path):
    source, root = tmp_path / "source", tmp_path / "root"
    source.write_bytes(os.urandom(SOURCE_BYTES))
    root.mkdir()
    serving(alone, root, "127.0.0.1:7411")
    sender = alone(
        *(sys.executable, "-m", "weir.cli", "send", source, "127.0.0.1:7411/copy", "--insecure"),
        *("--rate", "0 bit/s", "--streams", "2", "--json"),
    )
    assert sender.stdout.readline()

    def timers():
        """What ss tells of both ends of the control connection and two data connections."""
        told = alone("ss", "-Htno", "sport = :7411 or dport = :7411").communicate()[0]
        return [line.rpartition("timer:(")[2] for line in told.splitlines()]

    # Timers of 10 s, which ss tells as "9.932ms" or "320ms"; a NAT forgets after a minute or more.
    def are_short():
        found = timers()
        spans = [one.removeprefix("keepalive,").split(",")[0] for one in found]
        return len(found) == 6 and all(
            re.fullmatch(r"\d+ms|(10|\d)(\.\d+ms|sec)", x) for x in spans
        )

    assert until(are_short)
