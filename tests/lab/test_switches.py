"""Switches of a lab are Open vSwitch's: they forward, are known by name, and leave nothing."""

import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from lab_rig import supervisor_of
from rig import WEIR, lab_lacks, needs_ovs, until
from switch_rig import CLASSES, LINE, listener

from weir.errors import BadInput
from weir.lab import Lab, addressing, parse
from weir.lab.switches import shaping
from weir.sim.run import simulate

SEND = "import socket, sys; s = socket.create_connection((sys.argv[1], 7000)); s.sendall(b'x' * n)"
TAKE = """
import socket
with socket.create_server(("", 7000)) as server:
    print(flush=True)
    with server.accept()[0] as taken:
        print(sum(len(piece) for piece in iter(lambda: taken.recv(65536), b"")))
"""
TRAFFIC = """
[[traffic]]
kind = "iperf3"
from = "h1"
to = "h2"
stop = "500 ms"
"""


def crosses(lab, source="h1", to="h2"):
    ping = ["ping", "-c", "1", "-W", "1", to]
    return lab.run(source, ping, check=False, stdout=subprocess.DEVNULL).returncode == 0


def asked(bridge, *words):
    """What Open vSwitch says of a switch over OpenFlow."""
    command = ["ovs-ofctl", "-O", "OpenFlow13", words[0], str(bridge.management), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def processes(lab):
    """The switches' processes by their names."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if any(str(lab.directory / "switches") in word for word in words):
            found.setdefault(Path(words[0]).name, []).append(int(entry.name))
    return found


@needs_ovs
def test_switches_forward_by_next_hops_and_are_told_by_name(lab_of, weir):
    lab = lab_of(LINE)
    assert (lab.hosts, lab.routers, list(lab.switches())) == (["h1", "h2"], [], ["s1", "s2"])
    for name, number in (("s1", 1), ("s2", 42)):
        bridge = lab.switches()[name]
        shown = asked(bridge, "show")
        assert f"dpid:{number:016x}" in shown and bridge.datapath_id == f"{number:016x}"
        named = dict(re.findall(r"^ (\d+)\((\S+)\)", shown, re.MULTILINE))
        assert named == {str(n): port.device for n, port in bridge.ports.items()}
    assert [port.peer for port in lab.switches()["s2"].ports.values()] == ["s1", "h2"]
    assert lab.switches()["s2"].port_to("h2") == 2 and lab.device("s2", "s2-h2") == "h2"
    # The packets of both ways, and no switch in between counts as a hop.
    ping = lab.run("h1", ["ping", "-c", "2", "-i", "0.1", "h2"], capture_output=True, text=True)
    assert "2 received" in ping.stdout and "ttl=64" in ping.stdout
    shown = weir("lab", "status").stdout
    assert re.search(r"s2 +000000000000002a +up +none: next hops +1 to s1, 2 to h2", shown), shown
    with pytest.raises(BadInput, match="s1 is a switch"):
        lab.address("s1")


@needs_ovs
def test_tcp_crosses_switches_whole(lab_of):
    lab = lab_of(LINE)
    size = 5_000_000
    with lab.popen("h2", ["python3", "-c", TAKE], stdout=subprocess.PIPE) as server:
        assert server.stdout.readline()
        send = SEND.replace("n)", f"{size})")
        lab.run("h1", ["python3", "-c", send, lab.address("h2")], timeout=60)
        assert int(server.stdout.readline()) == size
    core = next(link for link in lab.status()["links"] if link["name"] == "s1-s2")
    assert core["forward"]["bytes_out"] > size and core["forward"]["malformed"] == 0


def ruled(lab):
    """Gives the switches the rules that let the hosts reach each other."""
    for bridge in lab.switches().values():
        for number in (1, 2):
            asked(bridge, "add-flow", f"ip,nw_dst=10.77.0.{number},actions=output:{number}")


@needs_ovs
def test_switches_wait_for_a_controller_on_the_machine_and_forward_nothing_until_then(lab_of):
    with socket.create_server(("127.0.0.1", 0)) as free:
        # It takes connections, and says nothing that a controller says.
        port = free.getsockname()[1]
        lab = lab_of(LINE, controller=f"127.0.0.1:{port}")
        assert not crosses(lab), "fail-secure: only a controller's rules"
        told = lab.status()["switches"]
        assert {one["controller"] for one in told} == {f"127.0.0.1:{port}"}
        assert not any(one["connected"] for one in told)
    with listener(socket.AF_INET, ("127.0.0.1", port)) as (taken, _):
        until(lambda: taken.datapaths == {1, 42})
    ruled(lab)
    until(lambda: crosses(lab))  # the last rules hold without a controller


@needs_ovs
def test_a_controller_at_a_unix_socket_is_reached_too(lab_of, tmp_path):
    with listener(socket.AF_UNIX, f"{tmp_path}/c") as (taken, where):
        lab_of(LINE + f'[switches]\ncontroller = "unix:{where}"\n')
        until(lambda: taken.datapaths == {1, 42})


@needs_ovs
def test_a_switch_that_hangs_loses_packets_and_is_restarted(lab_of, weir):
    flooded = '[[traffic]]\nkind = "udp"\nfrom = "h1"\nto = "h2"\nrate = "300 Mbit/s"\n'
    lab = lab_of(LINE + flooded)
    before = processes(lab)["ovs-vswitchd"]
    for pid in before:
        os.kill(pid, signal.SIGSTOP)
    assert until(lambda: lab.status()["switches"][0]["dropped"]) > 0
    assert "switch s1 was too slow for" in weir("lab", "status").stdout
    for pid in before:
        os.kill(pid, signal.SIGCONT)
    done = weir("lab", "restart", "s1")
    assert done.returncode == 0 and "s1 of lab switched is up again" in done.stdout
    assert len(set(before) & set(processes(lab)["ovs-vswitchd"])) == 1
    until(lambda: all(one["up"] for one in lab.status()["switches"]))
    until(lambda: crosses(lab))
    with pytest.raises(BadInput, match="its switches are s1, s2"):
        lab.restart("h1")


@needs_ovs
def test_a_cut_cable_is_seen_by_the_switches_at_both_ends(lab_of):
    lab = lab_of(LINE)
    until(lambda: crosses(lab))
    lab.cut("s1-s2")
    ends = ((lab.switches()["s1"], "s2"), (lab.switches()["s2"], "s1"))
    until(lambda: all("LINK_DOWN" in port_shown(*end) for end in ends))
    assert not crosses(lab)
    lab.mend("s1-s2")
    until(lambda: crosses(lab))
    until(lambda: not any("LINK_DOWN" in port_shown(*end) for end in ends))


def port_shown(bridge, peer):
    """What OpenFlow says of a switch's port to a neighbour."""
    ports = re.split(r"^ (?=\d+\(|LOCAL)", asked(bridge, "show"), flags=re.MULTILINE)
    return next(port for port in ports if port.startswith(f"{bridge.port_to(peer)}("))


@needs_ovs
def test_ports_serve_their_classes_by_dscp(lab_of, weir):
    """The first wants less than its part of 20 Mbit/s and loses nothing; the last has a trickle."""
    # Deep queues: how long others keep the machine from us must not decide what is dropped.
    slow = 'rate = "20 Mbit/s"\nqueue = { limit = "1 s" }'
    lab = lab_of(LINE.replace('rate = "100 Mbit/s"', slow) + CLASSES + flood())
    until(lambda: all(served(lab)[name]["dropped"] for name in ("best-effort", "lower")))

    def shared():
        """Over a while in which both had more to send than they may: so others did not decide."""
        before = served(lab)
        until(lambda: served(lab)["lower"]["sent_bytes"] > before["lower"]["sent_bytes"] + 10_000)
        now = served(lab)
        got = {name: now[name]["sent_bytes"] - before[name]["sent_bytes"] for name in now}
        return got["expedited"] > 0 and got["best-effort"] > 7 * got["lower"]

    until(shared)
    now = served(lab)
    assert now["expedited"]["dropped"] == 0 < now["best-effort"]["dropped"]
    core = next(link for link in lab.status()["links"] if link["name"] == "s1-s2")
    assert core["forward"]["dropped_queue"] == 0, "packets wait in the classes"
    assert re.search(r"s1 → s2 +expedited +[1-9]", weir("lab", "status").stdout)


def flood():
    """UDP of each class, together three times what the link carries."""
    one = '[[traffic]]\nkind = "udp"\nfrom = "h1"\nto = "h2"\nrate = "{} Mbit/s"\ndscp = "{}"\n'
    return "".join(one.format(*each) for each in ((6, "AF11"), (27, "CS0"), (27, "LE")))


def served(lab):
    """What each class did on the port from s1 to s2."""
    ports = next(one for one in lab.status()["switches"] if one["name"] == "s1")["ports"]
    return {one["name"]: one for one in ports[1]["classes"]}


@needs_ovs
@pytest.mark.parametrize("victims", [["ovs-vswitchd", "ovsdb-server"], ["supervisor"]])
def test_nothing_is_left_of_switches_whoever_is_killed(lab_of, victims):
    lab = lab_of(LINE, controller="127.0.0.1:1")
    inside = processes(lab)
    assert {name: len(pids) for name, pids in inside.items()} == {
        "ovs-vswitchd": 2,
        "ovsdb-server": 2,
    }
    relays = relays_of(supervisor_of(lab))
    assert len(relays) == 1
    inside["supervisor"] = [supervisor_of(lab)]
    for victim in victims:
        os.kill(min(inside[victim]), signal.SIGKILL)
    if victims != ["supervisor"]:
        until(lambda: any(not one["up"] for one in lab.status()["switches"]))
    lab.down()
    until(lambda: not processes(lab))
    until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in relays))
    assert not lab.directory.exists()
    devices = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True)
    assert not re.search(r"^(ovs-netdev|s1|s2|h1|h2) ", devices.stdout, re.MULTILINE)


def relays_of(supervisor):
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return [
        int(pid)
        for pid in children
        if b"weir.lab.switches.relay" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def test_without_open_vswitch_a_lab_with_switches_says_what_to_install(runtime_dir, tmp_path):
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    (tmp_path / "line.toml").write_text(LINE)
    hide = 'mkdir -p "$0" && mount -t tmpfs none "$0" && exec "$@"'
    schema = "/usr/share/openvswitch"
    command = ["unshare", "--mount", "sh", "-c", hide, schema, WEIR, "lab", "up"]
    done = subprocess.run(
        [*command, tmp_path / "line.toml"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 3 and "openvswitch-switch" in done.stderr
    assert [path.name for path in runtime_dir.iterdir()] == ["lock"]


def test_addresses_of_hosts_and_routers_are_what_they_were_and_a_switch_has_none():
    decided = addressing.plan(
        parse(
            LINE.replace("s1 =", "r = {}\ns1 =").replace(
                '"s1", "s2"]', '"s1", "r"]\n[[link]]\nends = ["r", "s2"]'
            )
        )
    )
    assert decided.addresses == {"h1": "10.77.0.1", "h2": "10.77.0.2", "r": "10.77.0.3"}
    assert decided.next_hops["s1"]["h2"].peer == "r" and "s2" not in decided.next_hops["h1"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("datapath = 0x2a", "datapath = 0", "1 to"),
        ("datapath = 0x2a", 'datapath = "x"', "1 to"),
        ("datapath = 0x2a", "ecn = true", "ecn is not a key here"),
        ('s1 = { kind = "switch"', 's1 = { kind = "switch", datapath = 42', "that of s"),
        ('kind = "switch" }', 'kind = "hub" }', "allowed are host, router, switch"),
        ('kind = "switch" }', 'kind = "host" }', "a host stands in [hosts]"),
        ("h1 = {}", 'h1 = { kind = "switch" }', "stands in [routers]"),
        ("h1 = {}", 'h1 = { kind = "router" }', "a router stands in [routers]"),
        ("[hosts]", '[switches]\ncontroller = "here"\n[hosts]', "HOST:PORT or unix:PATH"),
        ("[hosts]", '[switches]\ncontroller = "a:70000"\n[hosts]', "HOST:PORT or unix:PATH"),
        ("[hosts]", "[switches]\nqueue = 1\n[hosts]", "queue is not a key here"),
        *(
            ("[hosts]", f"{CLASSES.replace(old, new)}[hosts]", says)
            for old, new, says in (
                ('"60 %"', '"0 %"', "more than 0 %"),
                ('"60 %"', '"93 %"', "promised 101 Mbit/s of 100 Mbit/s"),
                ('"60 %"', '"1 kbit/s"', "class expedited has a rate of 1000 bit/s"),
                ('"90 %"', '"6 Mbit/s"', "class best-effort has a rate of 7000000 bit/s"),
                ('dscp = ["LE"]', "dscp = []", "one class has no dscp"),
                ('dscp = ["LE"]', 'dscp = ["EF"]', "dscp 46 stands in two classes"),
                ('dscp = ["LE"]', "dscp = [64]", "0 to 63"),
                ('"lower"', '"expedited"', "name expedited stands in two classes"),
            )
        ),
        (
            'rate = "100 Mbit/s"',
            f'rate = "100 Mbit/s"\nqueue = {{ discipline = "pie" }}\n{CLASSES}',
            "take fifo here",
        ),
    ],
)
def test_what_no_switch_can_be_is_refused_at_its_line(old, new, says):
    assert old in LINE
    with pytest.raises(BadInput, match=r"scenario:\d+: ") as refused:
        parse(LINE.replace(old, new, 1))
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("limit", "each"),
    [('"60 ms"', 50_000), ('"60 kB"', 20_000), ('"90 packets"', 45_000), ('"6 packets"', 7500)],
)
def test_the_classes_of_a_port_share_its_queues_limit(limit, each):
    """In 60 ms 20 Mbit/s are 150 kB; three classes have a third each."""
    limited = f'rate = "20 Mbit/s"\nqueue = {{ limit = {limit} }}'
    scenario = parse(LINE.replace('rate = "100 Mbit/s"', limited) + CLASSES)
    link = next(link for link in scenario.links if link.name == "s1-s2")
    lines = shaping.commands("s2", link.forward, link.mtu, scenario.switching.classes)
    assert [line.split()[-1] for line in lines if "bfifo" in line] == [f"{each}b"] * 3


def test_links_that_meet_at_a_switch_have_one_mtu():
    uneven = LINE.replace('ends = ["s1", "s2"]', 'ends = ["s1", "s2"]\nmtu = 9000')
    with pytest.raises(BadInput, match=r"scenario:\d+: .*h1-s1 has 1500 and s1-s2 9000"):
        parse(uneven)


def test_a_table_for_switches_needs_one():
    lonely = LINE.replace('kind = "switch"', "").replace(", datapath = 0x2a", "")
    with pytest.raises(BadInput, match="there is none"):
        parse(lonely + '[switches]\ncontroller = "127.0.0.1:6653"\n')
    with pytest.raises(BadInput, match="no switch that"):
        Lab.up(parse(lonely), controller="127.0.0.1:6653")


def test_the_simulator_takes_the_same_file_and_forwards_as_by_routers():
    switched = LINE + TRAFFIC
    routed = re.sub(r"\{ kind = .*", "{}", switched)
    assert routed != switched
    assert simulate(parse(switched)) == simulate(parse(routed))


def test_the_simulator_serves_the_classes_too():
    flooded = flood().replace("rate =", 'stop = "1 s"\nrate =')
    told = simulate(parse(LINE.replace("100 Mbit/s", "20 Mbit/s") + CLASSES + flooded))
    expedited, best, lower = (flow["received_packets"] for flow in told["flows"])
    assert expedited == told["flows"][0]["sent_packets"] > 400
    assert best > 10 * lower > 0
