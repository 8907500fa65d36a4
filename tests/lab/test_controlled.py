"""The controller with real packets: paths, promises counted, failures gone round, in a lab."""

import asyncio
import contextlib
import json
import signal
import subprocess
import threading

from rig import WEIR, needs_ovs, until

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.calendar.network import parse_network
from weir.control.core import Core
from weir.control.openflow import Switches

CABLES = [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s1", "s3"), ("s3", "s2")]
RING = """\
[lab]
name = "ring"
[hosts]
h1 = {}
h2 = {}
[routers]
s1 = { kind = "switch" }
s2 = { kind = "switch" }
s3 = { kind = "switch" }
""" + "".join(f'[[link]]\nends = ["{a}", "{b}"]\n' for a, b in CABLES)
AROUND = ("h1s1.forward", "s1s3.forward", "s3s2.forward", "s2h2.forward")


def described(lab):
    """The lab as a network file for the controller."""
    nodes = {name: {"address": lab.address(name)} for name in lab.hosts}
    nodes |= {name: {"datapath": one.datapath_id} for name, one in lab.switches().items()}
    links = [{"name": f"{a}{b}", "ends": [a, b], "capacity": "100 Mbit/s"} for a, b in CABLES]
    return {"nodes": nodes, "links": links}


@contextlib.contextmanager
def control(tmp_path, network, where):
    """`weir control serve`, killed at the end."""
    path = tmp_path / "network.json"
    path.write_text(json.dumps(network))
    command = [WEIR, "control", "serve", "--network", str(path), "--listen", where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def crosses(lab):
    ping = ["ping", "-c", "1", "-W", "1", "h2"]
    return lab.run("h1", ping, check=False, stdout=subprocess.DEVNULL).returncode == 0


def asked(bridge, *words):
    command = ["ovs-ofctl", "-O", "OpenFlow13", words[0], str(bridge.management), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@needs_ovs
def test_packets_go_while_there_are_rules_whoever_is_there(lab_of, tmp_path):
    where = f"unix:{tmp_path}/c"
    lab = lab_of(RING, controller=where)
    assert not crosses(lab)
    with control(tmp_path, described(lab), where):
        until(lambda: crosses(lab), timeout_s=120)
    # The last rules hold without a controller.
    until(lambda: crosses(lab))
    lab.restart("s1")
    assert not crosses(lab)
    with control(tmp_path, described(lab), where) as process:
        until(lambda: crosses(lab), timeout_s=120)
        lab.restart("s2")
        until(lambda: crosses(lab), timeout_s=120)
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
    assert "switch s2 is gone: it goes on by its last rules" in said
    assert "carries nothing" not in said


@contextlib.contextmanager
def controlled(core, where):
    """A controller in a thread of this process."""
    loop = asyncio.new_event_loop()

    async def work():
        running = Switches(core, lambda _: None)
        server = await running.listen(where)
        with contextlib.suppress(asyncio.CancelledError):
            await running.run()
        server.close()
        await running.close()

    task = loop.create_task(work())
    thread = threading.Thread(target=loop.run_until_complete, args=(task,))
    thread.start()
    yield
    loop.call_soon_threadsafe(task.cancel)
    thread.join()
    loop.close()


SEND = "import socket, sys; s = socket.create_connection((sys.argv[1], 7000)); s.sendall(b'x' * {})"
TAKE = """
import socket
with socket.create_server(("", 7000)) as server:
    print(flush=True)
    with server.accept()[0] as taken:
        print(sum(len(piece) for piece in iter(lambda: taken.recv(65536), b"")))
"""
SIZE = 3_000_000


def send(lab):
    """Moves some bytes from h1 to h2 by TCP; how many each link between switches carried."""
    before = carried(lab)
    with lab.popen("h2", ["python3", "-c", TAKE], stdout=subprocess.PIPE) as server:
        assert server.stdout.readline()
        argv = ["python3", "-c", SEND.format(SIZE), lab.address("h2")]
        lab.run("h1", argv, timeout=60)
        assert int(server.stdout.readline()) == SIZE
    return {name: count - before[name] for name, count in carried(lab).items()}


def carried(lab):
    return {link["name"]: link["forward"]["bytes_out"] for link in lab.status()["links"]}


@needs_ovs
def test_a_booking_takes_its_path_is_counted_and_goes_round_a_port_that_is_down(lab_of, tmp_path):
    where = f"unix:{tmp_path}/c"
    lab = lab_of(RING, controller=where)
    pair = Pair(lab.address("h1"), lab.address("h2"), 7000)
    core = Core(parse_network(described(lab)))
    core.allot({pair: Allotment(10**9, AROUND)})

    def settled():
        return len(core.connected()) == 3 and core.is_settled()

    with controlled(core, where):
        until(settled)
        by = send(lab)
        assert by["s1-s3"] > SIZE > 10 * by["s1-s2"]
        until(lambda: core.kept()[pair].carried_bytes > SIZE)
        # Once, and not at each switch; a busy machine makes TCP send some of it again.
        assert core.kept()[pair].carried_bytes < 1.8 * SIZE
        asked(lab.switches()["s1"], "mod-port", lab.device("s1", "s1-s3"), "down")
        until(lambda: core.path(pair) == ["h1s1.forward", "s1s2.forward", "s2h2.forward"])
        until(settled)
        by = send(lab)
        assert by["s1-s2"] > SIZE > 10 * by["s1-s3"]
