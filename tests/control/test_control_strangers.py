"""Whoever reaches the controller's port: one does not take the others' controller from them."""

import asyncio
import contextlib
import json
import socket
import struct
import subprocess
import threading

import pytest
from control_rig import Fabric, network
from rig import PATIENCE_S, WEIR, until_async
from test_control_cli import NETWORK

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.cli.control import _tell
from weir.control import codec, openflow, rules
from weir.control import messages as m
from weir.control.core import Core
from weir.control.lldp import Origin, frame
from weir.control.openflow import Switches
from weir.control.repeats import AT_ONCE, LINES_MAX, WINDOW_S, Repeats

# A meter of no bytes: an answer of 24.
METER_OF_NOTHING = bytes.fromhex("0413001800000001000a0000000000000000000d00000001")
LINE = network(["h1", "h2"], [("h1", "s1"), ("s1", "s2"), ("s2", "h2")], ["s1", "s2"])
PAIR = Pair("10.0.0.1", "10.0.0.2", 7411)
HELLO = struct.pack("!BBHI", 4, 0, 8, 1)


def message(kind, body=b""):
    return struct.pack("!BBHI", 4, kind, 8 + len(body), 1) + body


def joins(datapath):
    """What a switch without ports says first."""
    features = message(6, struct.pack("!QIBB2xII", datapath, 0, 254, 0, 0, 0))
    return HELLO + features + message(19, struct.pack("!HH4x", 13, 0))


class Peer:
    """A switch, or who says so, at a socket."""

    def __init__(self, port, says=HELLO):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.sendall(says)
        self.read = self.socket.makefile("rb")
        self.left = threading.Event()

    def leave(self):
        self.left.set()
        self.read.close()
        self.socket.close()

    def beat(self):
        """Says something now and then, as a switch does, however long the others take."""

        def beats():
            with contextlib.suppress(OSError):
                while not self.left.wait(0.5):
                    self.socket.sendall(message(2, b"beat"))

        threading.Thread(target=beats, daemon=True).start()

    def heard(self, kind):
        """The body of the next message of a kind; None where the connection has ended."""
        while head := self.read.read(8):
            body = self.read.read(int.from_bytes(head[2:4]) - 8)
            if head[1] == kind:
                return body
        return None

    def is_served(self, data=b"?"):
        """Whether an echo request is answered."""
        self.socket.sendall(message(2, data))
        while (body := self.heard(3)) is not None:
            if body == data:
                return True
        return False


@pytest.fixture
def meet(monkeypatch):
    """Makes peers, which leave at the end of a test; to controllers of this process they may be
    silent for long."""
    monkeypatch.setattr(openflow, "SILENCE_S", PATIENCE_S)
    with contextlib.ExitStack() as leaves:

        def make(*words):
            peer = Peer(*words)
            leaves.callback(peer.leave)
            return peer

        yield make


@pytest.fixture
def controller(tmp_path):
    """The port of a controller, and what it says, as a file to read."""
    path = tmp_path / "network.json"
    path.write_text(json.dumps(NETWORK))
    command = [WEIR, "control", "serve", "--network", str(path), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline().rsplit(":", 1)[1])
            yield port, process.stdout
        finally:
            process.kill()


@pytest.mark.parametrize(
    "sent",
    [
        METER_OF_NOTHING,
        message(23, struct.pack("!I4xIIH6x", 1, 1, 1, 0)),
        message(19, struct.pack("!HH4x", 10, 0) + bytes(8)),
        message(19, struct.pack("!HH4x", 1, 0) + bytes(64)),
    ],
    ids=["24 bytes", "queues", "meters", "rules"],
)
def test_a_stranger_with_lengths_of_nothing_holds_nobody_up(controller, meet, sent):
    port, says = controller
    ours = meet(port, joins(1))
    ours.beat()
    assert says.readline() == "switch s1 is connected\n"
    # Refused or not: it has been read when this is known.
    meet(port, HELLO + sent).is_served()
    assert ours.is_served()
    assert meet(port).is_served()


def test_who_asks_and_does_not_read_is_cut_off(controller, meet):
    port, says = controller
    ours, deaf = meet(port, joins(1)), meet(port)
    ours.beat()
    assert says.readline() == "switch s1 is connected\n"
    with pytest.raises(ConnectionError):
        for _ in range(4_000):
            deaf.socket.sendall(message(2, bytes(60_000)))
    assert "127.0.0.1: it does not read what it is sent, its connection ends\n" in says
    assert ours.is_served()


def test_a_stranger_has_no_rules_to_read(controller, meet):
    port, _ = controller
    # These are none, and are not looked at before it is known whose they are.
    stranger = meet(port, HELLO + message(19, struct.pack("!HH4x", 1, 0) + bytes(80)))
    assert stranger.is_served()


def test_strangers_make_way_for_switches(controller, meet):
    """However many say nothing but that they are there: a switch says at once which it is."""
    port, says = controller
    strangers = [meet(port) for _ in range(openflow.STRANGERS_MAX + 10)]
    assert strangers[-1].is_served()
    ours = meet(port, joins(1))
    assert says.readline() == "switch s1 is connected\n"
    assert ours.is_served()
    assert strangers[0].heard(1) is None  # It has ended.


def test_who_makes_up_a_number_each_time_does_not_fill_the_log(controller, meet):
    port, says = controller
    count = openflow.TOLD_OF_EACH_MAX
    for datapath in range(100, 100 + count + 20):
        assert meet(port, joins(datapath)).heard(1) is None
    ours = meet(port, joins(1))
    told = []
    while (line := says.readline()) != "switch s1 is connected\n":
        told.append(line)
    assert ours.is_served()
    assert len(told) == count + 1 and all("is not in the file" in line for line in told[:-1])
    assert told[-1].endswith(": more is wrong with who connects from there, which is not told\n")


def test_a_port_that_flaps_does_not_fill_the_log(controller, meet):
    port, says = controller
    h1 = struct.pack("!I4x6s2x16sIIII16x", 1, bytes(6), b"h1", 0, 0, 0, 0)
    down = h1[:32] + struct.pack("!I", 1) + h1[36:]  # OFPPC_PORT_DOWN
    ours = meet(port, HELLO + message(6, struct.pack("!QIBB2xII", 1, 0, 254, 0, 0, 0)))
    ours.socket.sendall(message(19, struct.pack("!HH4x", 13, 0) + h1))
    assert says.readline() == "switch s1 is connected\n"
    ours.beat()
    for _ in range(1_000):
        for state in (down, h1):
            ours.socket.sendall(message(12, struct.pack("!B7x", 2) + state))
    told = []
    while len(told) < 100 and not (told and " times more in " in told[-1]):
        told.append(says.readline())
    assert len(told) < 100
    assert told[-1].startswith("port h1 of s1 is not there or down: ")
    assert says.readline().startswith("port h1 of s1 is up (")  # It ended so.
    assert sum("port h1 of s1" in line for line in told) <= 3 * AT_ONCE


def test_what_comes_again_and_again_is_counted():
    repeats = Repeats()
    assert [repeats.is_told("a", 0.0) for _ in range(AT_ONCE + 3)] == [True] * AT_ONCE + [False] * 3
    assert repeats.is_told("b", 1.0)
    assert repeats.due(WINDOW_S - 0.1) == []
    assert repeats.due(WINDOW_S) == ["a (3 times more in 10 s)"]
    assert repeats.is_told("a", WINDOW_S)
    for number in range(3 * LINES_MAX):
        assert repeats.is_told(f"{number}", WINDOW_S)
    assert repeats.due(3 * WINDOW_S) == []


def test_names_of_ports_do_nothing_to_a_terminal(capsys):
    """The far end of a cable is told by the name that its switch gives it."""
    core = Core(LINE)
    core.on_connected("s1", {"s2": 1})
    core.on_connected("s2", {"s1": 5, "\x1b[2J\nforged": 7})
    core.on_frame("s2", 7, frame(Origin(1, 1)))
    core.poll(0.0)
    for line in core.take_told():
        _tell(line)
    shown = capsys.readouterr().out
    assert "leads to port \\x1b[2J\\nforged of s2" in shown and "\x1b" not in shown


@pytest.mark.parametrize("number", [0, 190_000, 190_003, 2**32 - 1])
def test_numbers_of_meters_that_no_pair_has_are_not_taken_over(number):
    core, fabric = Core(LINE), Fabric(LINE)
    match = m.Match(1, eth_type=m.IPV4, source=PAIR.source, target=PAIR.destination, port=PAIR.port)
    place = m.Place(rules.WHAT, 40_000, match)
    assert rules.pair_of(place) == PAIR
    fabric.does["s2"] = m.Tables({place: m.Entry(m.Actions(meter=number), rules.COOKIE)})
    core.allot({PAIR: Allotment(10**7)})
    fabric.connect(core)
    fabric.settle(core, 0.0)
    assert core.is_settled()
    assert fabric.does["s1"].meters.keys() == {1, 2}
    for _, told in fabric.told:
        codec.encoded(told, 1)


def test_what_cannot_be_said_to_one_switch_keeps_none_from_another(meet):
    core, told = Core(LINE), []
    switches = Switches(core, told.append)

    async def work():
        server = await switches.listen("127.0.0.1:0")
        port = server.sockets[0].getsockname()[1]
        bad, good = [await asyncio.to_thread(meet, port, joins(at)) for at in (1, 2)]
        await until_async(lambda: len(core.connected()) == 2, lambda: told)
        switches.pump()
        core.poll = lambda _: {"s1": [m.AddMeter(-1, m.Meter(1, 1))], "s2": [m.RemoveMeter(77)]}
        switches.pump()
        del core.poll
        # OFPT_METER_MOD: delete, and the number.
        found = await asyncio.to_thread(good.heard, 29)
        assert struct.unpack("!HHI", found) == (2, 0, 77)
        assert await asyncio.to_thread(bad.heard, 29) is None
        await until_async(lambda: core.connected() == ["s2"], lambda: told)
        server.close()
        await switches.close()

    asyncio.run(work())
    assert [line for line in told if "cannot be sent" in line and line.startswith("s1: ")]


def test_a_switch_with_very_many_rules_gets_them_all(meet):
    """More than its socket takes while it is busy with something else."""
    core, told = Core(LINE), []
    switches, count = Switches(core, told.append), 50_000
    place = m.Place(0, 40_000, m.Match(1, eth_type=m.IPV4, protocol=m.TCP, port=7411))

    async def work():
        server = await switches.listen("127.0.0.1:0")
        port = server.sockets[0].getsockname()[1]
        busy = await asyncio.to_thread(meet, port, joins(1))
        await until_async(lambda: core.connected() == ["s1"], lambda: told)
        entry = m.Entry(m.Actions(1, 10, "02:00:00:00:00:01", 2), 5)
        core.poll = lambda _: {"s1": [m.AddRule(place, entry)] * count}
        switches.pump()
        del core.poll
        busy.socket.sendall(message(2, b"still busy"))
        assert await asyncio.to_thread(lambda: all(busy.heard(14) for _ in range(count)))
        server.close()
        await switches.close()

    asyncio.run(work())
    assert not [line for line in told if "does not read" in line]


def test_who_connects_while_the_controller_ends_is_not_left_waiting(meet):
    switches = Switches(Core(LINE), print)

    async def work():
        closed = asyncio.Event()

        async def close():
            await switches.close()
            closed.set()

        def connected(reader, writer):
            # It has its turn before the connection has had any.
            closing.append(asyncio.create_task(close()))
            switches._meet(reader, writer)

        closing = []
        async with await asyncio.start_server(connected, "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            peer = await asyncio.to_thread(meet, port)
            await closed.wait()
            # While this process still lives.
            assert await asyncio.to_thread(peer.heard, 0) is None

    asyncio.run(work())
