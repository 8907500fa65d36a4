"""The whole controller against Open vSwitch's rule engine: rules as they arrive and are mended."""

import asyncio
import contextlib
import re
from dataclasses import replace

import pytest
from control_rig import network
from ovs_rig import PATIENCE_S
from ovs_rig import ovs as ovs
from rig import until, until_async

from weir.calendar.agents import edge
from weir.calendar.agents.enforcer import Allotment, Pair
from weir.control import openflow
from weir.control.core import Core
from weir.control.elephant import UDP, Flow
from weir.control.openflow import Switches
from weir.control.rules import label
from weir.control.serve import serve

HOSTS = [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s1", "s3"), ("s3", "s2")]
PAIR = Pair("10.0.0.1", "10.0.0.2", 7411)
AROUND = ("h1s1.forward", "s1s3.forward", "s3s2.forward", "s2h2.forward")
PACKET = "in_port=s1-h1,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_dst=7411,dl_src=aa:00:00:00:00:01"


def square(**about):
    """Two hosts, three switches; Open vSwitch's ports have one name in all bridges."""
    made = network(["h1", "h2"], HOSTS, ["s1", "s2", "s3"], **about)
    for name, link in list(made.links.items()):
        ends = {
            "source_port": f"{link.source}-{link.source_port}",
            "target_port": f"{link.target}-{link.target_port}",
        }
        made.links[name] = replace(link, **ends)
    return made


class Controller:
    """A controller that runs in this event loop."""

    def __init__(self, made, allotted):
        self.told = []
        self.core = Core(made)
        if allotted is not None:
            self.core.allot(allotted)
        self.switches = Switches(self.core, self.told.append)

    async def start(self, listen="127.0.0.1:0"):
        self.server = await self.switches.listen(listen)
        self.running = asyncio.create_task(self.switches.run())
        if listen.startswith("unix:"):
            return listen
        host, port = self.server.sockets[0].getsockname()
        return f"tcp:{host}:{port}"

    async def stop(self):
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.running
        self.server.close()
        await self.switches.close()

    def said(self):
        """What it has told, but for who is late on a busy machine."""
        return [line for line in self.told if "has not connected in" not in line]

    async def settled_without_calendar(self):
        await until_async(lambda: len(self.core.connected()) == 3, lambda: self.told)

    async def settled(self, count):
        await until_async(
            lambda: len(self.core.connected()) == count and self.core.is_settled(),
            lambda: self.told,
        )


def run(ovs, allotted, then, made=None):
    """Runs `then(controller)` when all switches have done what is wanted."""
    made = made or square()

    async def work():
        controller = Controller(made, allotted)
        address = await controller.start(f"unix:{ovs.folder}/controller")
        await asyncio.to_thread(ovs.build, made, address)
        try:
            await controller.settled(3)
            await then(controller)
        finally:
            await controller.stop()

    asyncio.run(work())


async def nothing(_):
    """Only what the start brings."""


def way(ovs):
    """The switches that a packet of the pair passes, and its type of service at the end."""
    said = ovs.trace("s1", PACKET)
    return re.findall(r'bridge\("(\w+)"\)', said), int(re.search(r"Final.*nw_tos=(\d+)", said)[1])


def test_switches_do_what_the_tables_say(ovs):
    run(ovs, {PAIR: Allotment(10**8, AROUND)}, nothing)
    assert way(ovs) == (["s1", "s3", "s2"], 40)
    mac = label(PAIR, list(AROUND))
    cookie = f"cookie=0x5745{mac.replace(':', '')}"
    assert [x for x in ovs.flows("s3") if mac in x] == [
        f"{cookie}, priority=50000,in_port=1,dl_src={mac} actions=output:2"
    ]
    udp = ovs.trace("s1", PACKET.replace("tcp", "udp").replace("tp_dst", "udp_dst"))
    assert re.findall(r'bridge\("(\w+)"\)', udp) == ["s1", "s2"]
    reply = "in_port=s2-h2,tcp,nw_src=10.0.0.2,nw_dst=10.0.0.1,tp_src=7411"
    assert re.findall(r'bridge\("(\w+)"\)', ovs.trace("s2", reply)) == ["s2", "s1"]
    arp = "in_port=s2-h2,arp,arp_spa=10.0.0.2,arp_tpa=10.0.0.1,arp_op=1,dl_dst=ff:ff:ff:ff:ff:ff"
    assert re.findall(r'bridge\("(\w+)"\)', ovs.trace("s2", arp)) == ["s2", "s1"]
    stranger = ovs.trace("s2", "in_port=s2-h2,ip,nw_src=10.0.0.2,nw_dst=10.0.0.9")
    assert "Datapath actions: drop" in stranger


def test_a_pair_that_moves_leaves_no_rules_behind(ovs):
    async def move(controller):
        controller.core.allot({PAIR: Allotment(10**8)})
        await controller.settled(3)

    run(ovs, {PAIR: Allotment(10**8, AROUND)}, move)
    assert way(ovs) == (["s1", "s2"], 40)
    assert not [x for x in ovs.flows("s3") if "dl_src" in x]


def test_another_controller_finds_everything_in_place_and_touches_nothing(ovs):
    allotted = {PAIR: Allotment(10**8, AROUND)}
    told = []

    async def again(controller):
        before = {name: ages(ovs, name) for name in controller.core.connected()}
        await controller.stop()
        other = Controller(square(), None)
        await other.start(f"unix:{ovs.folder}/controller")
        # As long as the calendar says nothing, nothing is taken away either.
        await other.settled_without_calendar()
        other.core.allot(allotted)
        await other.settled(3)
        told.extend(other.said())
        after = {name: ages(ovs, name) for name in before}
        assert after.keys() == before.keys()
        for name, rules in before.items():
            assert rules.keys() == after[name].keys()
            assert all(after[name][one] > age for one, age in rules.items())
        await other.stop()

    run(ovs, allotted, again)
    assert sorted(told) == [f"switch {name} is connected" for name in ("s1", "s2", "s3")]


def ages(ovs, switch):
    """How long each rule of a switch has been there, in seconds; changed ones begin anew."""
    said = ovs.run("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", switch)
    found = re.findall(r"(cookie=\S+) duration=([\d.]+)s, (table=\d+).*?(priority=\S+) (.*)", said)
    return {(a, table, c, d): float(age) for a, age, table, c, d in found}


def test_a_switch_that_was_killed_has_its_rules_again(ovs):
    async def kill(controller):
        before = await asyncio.to_thread(ovs.flows, "s3")
        await asyncio.to_thread(ovs.kill)
        await until_async(lambda: not controller.core.connected(), lambda: controller.told)
        await asyncio.to_thread(ovs.start)
        await controller.settled(3)
        assert await asyncio.to_thread(ovs.flows, "s3") == before
        assert "switch s3 is gone: it goes on by its last rules" in controller.told

    run(ovs, {PAIR: Allotment(10**8, AROUND)}, kill)


WRONG = [
    ["--strict", "del-flows", "s1", "table=0,priority=0"],
    ["mod-flows", "s1", "tcp,actions=drop"],
    ["add-flow", "s1", "priority=65000,ip,nw_ttl=3,nw_src=10.0.0.0/8,actions=drop"],
    ["add-flow", "s1", "priority=65000,tcp,actions=dec_ttl,output:1"],
    ["mod-meter", "s1", "meter=1,pktps,bands=type=drop,rate=7"],
    ["del-meters", "s1"],
]


def test_what_somebody_else_changes_is_put_right(ovs):
    def state():
        meters = ovs.run("ovs-ofctl", "-O", "OpenFlow13", "dump-meters", "s1").splitlines()[1:]
        return sorted([*ovs.flows("s1"), *meters])

    async def change(controller):
        right = await asyncio.to_thread(state)
        for wrong in WRONG:
            await asyncio.to_thread(ovs.run, "ovs-ofctl", "-O", "OpenFlow13", *wrong)
            async with asyncio.timeout(PATIENCE_S):
                while (now := await asyncio.to_thread(state)) != right:
                    await asyncio.sleep(0.1)
            assert now == right

    run(ovs, {PAIR: Allotment(10**8, AROUND)}, change)


def test_a_port_that_goes_is_gone_round(ovs):
    async def down(controller):
        assert (await asyncio.to_thread(way, ovs))[0] == ["s1", "s2"]
        argv = ["ovs-vsctl", f"--db=unix:{ovs.folder}/db.sock", "del-port", "s1", "s1-s2"]
        await asyncio.to_thread(ovs.run, *argv)
        await until_async(
            lambda: controller.core.path(PAIR) == list(AROUND), lambda: controller.told
        )
        await controller.settled(3)
        assert (await asyncio.to_thread(way, ovs))[0] == ["s1", "s3", "s2"]

    run(ovs, {PAIR: Allotment(10**8)}, down)


def test_wrong_cables_are_named_by_frames_through_the_switches(ovs):
    made = square()
    swapped = square()
    for name, link in made.links.items():
        other = {"s1-s2": "s1-s3", "s1-s3": "s1-s2"}
        ends = {
            "source_port": other.get(link.source_port, link.source_port),
            "target_port": other.get(link.target_port, link.target_port),
        }
        swapped.links[name] = replace(link, **ends)

    async def complain(controller):
        await until_async(lambda: len(controller.core.complaints()) == 4, lambda: controller.told)
        one = "link s1s2.forward: port s1-s3 of s1 leads to port s3-s1 of s3, "
        assert one + "not to port s2-s1 of s2" in controller.core.complaints()

    async def work():
        controller = Controller(swapped, {})
        address = await controller.start()
        await asyncio.to_thread(ovs.build, made, address)
        await complain(controller)
        await controller.stop()

    asyncio.run(work())


def test_a_switch_that_is_not_in_the_file_is_named_and_left_alone(ovs):
    small = network(["h1", "h2"], [("h1", "s1"), ("s1", "h2")], ["s1"])

    async def work():
        controller = Controller(small, {})
        address = await controller.start()
        await asyncio.to_thread(ovs.build, square(), address)
        await until_async(
            lambda: any("0000000000000003, from" in x for x in controller.told),
            lambda: controller.told,
        )
        await controller.stop()

    asyncio.run(work())
    assert ovs.flows("s3") == []


def test_switches_that_do_not_come_are_named(monkeypatch):
    monkeypatch.setattr(openflow, "AWAITED_S", 0.0)

    async def work():
        controller = Controller(square(), {})
        await controller.start()
        await until_async(lambda: len(controller.told) == 3, lambda: controller.told)
        await controller.stop()
        return controller.told

    told = asyncio.run(work())
    assert told[2] == "switch s3 (datapath 0000000000000003) has not connected in 0 s"


def test_two_switches_that_say_the_same_number_are_named(ovs):
    async def work():
        controller = Controller(square(), {})
        address = await controller.start()
        await asyncio.to_thread(ovs.build, square(), address)
        number = "other-config:datapath-id=0000000000000001"
        argv = ["ovs-vsctl", f"--db=unix:{ovs.folder}/db.sock", "set", "Bridge", "s3", number]
        await asyncio.to_thread(ovs.run, *argv)
        await until_async(
            lambda: any("the first connection ends" in x for x in controller.told),
            lambda: controller.told,
        )
        await controller.stop()

    asyncio.run(work())


class Stream:
    """A calendar with one transfer, of which no packet comes; what is posted to it."""

    def __init__(self):
        self.posted = []

    async def messages(self):
        one = {"id": "a", "rate_bps": 10**8, "path": list(AROUND), "size_bytes": 10**9}
        ends = {"source_address": "10.0.0.1", "destination_address": "10.0.0.2"}
        yield {"kind": "snapshot", "assign": [one | ends | {"data_address": "10.0.0.2:7411"}]}
        await asyncio.Event().wait()

    async def post(self, kind, body):
        self.posted.append(body)
        return {}


def test_an_alarm_does_not_wait_for_the_next_report(ovs, monkeypatch):
    # What is posted after the first report is posted because there is news.
    monkeypatch.setattr(edge, "REPORT_EVERY_S", 1_000.0)
    stream = Stream()

    def alarms():
        return [one["alarm"] for body in stream.posted for one in body.get("kept", ())]

    async def work():
        address = f"unix:{ovs.folder}/controller"
        told = []
        running = asyncio.create_task(serve(square(), address, stream, told.append))
        await asyncio.to_thread(ovs.build, square(), address)
        await until_async(lambda: "empty" in alarms(), lambda: (told, stream.posted))
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(work())


def sending(ovs, port, tos):
    """Stops the switches' clock; a function that sends UDP to a port, and counts what has arrived.

    Datagrams of 1400 bytes go from h1 to h2, hundreds of them.
    """
    control = ["ovs-appctl", "-t", f"{ovs.folder}/vswitchd.ctl"]
    ovs.run(*control, "time/stop")
    flow = (
        "in_port(2),eth(src=aa:00:00:00:00:01,dst=aa:00:00:00:00:02),eth_type(0x0800),"
        f"ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos={tos},ttl=64,frag=no),"
        f"udp(src=9,dst={port})"
    )

    def count(switch, port, what):
        ports = ovs.run("ovs-ofctl", "-O", "OpenFlow13", "dump-ports", switch, port)
        return int(re.search(rf"{what} +pkts=(\d+)", ports)[1])

    sent = count("s1", "s1-h1", "rx")

    def send(packets, after_ms=0):
        nonlocal sent
        if after_ms:
            ovs.run(*control, "time/warp", str(after_ms))
        for _ in range(packets // 100):  # a dummy port holds no more
            ovs.run(*control, "netdev-dummy/receive", "s1-h1", *[flow, "--len", "1400"] * 100)
            sent += 100
            until(lambda due=sent: count("s1", "s1-h1", "rx") == due)
        return count("s2", "s2-h2", "tx")

    return send


def test_udp_is_held_to_the_rate_of_the_pair_by_the_meter(ovs):
    run(ovs, {PAIR: Allotment(8_000_000)}, nothing)
    send = sending(ovs, 7411, 40)
    # The burst of 524 288 bytes, and then what 8.8 Mbit/s let pass in 100 ms.
    first = send(500)
    assert first == pytest.approx(524_288 / 1_400, abs=3)
    assert send(100) - first <= 3
    assert send(100, 100) - first == pytest.approx(8_800_000 / 8 * 0.1 / 1_400, abs=6)


def test_an_elephant_of_ipv6_is_marked_and_led_and_its_hosts_find_each_other(ovs):
    made = square(has_ipv6=True)
    packet = "in_port=s1-h1,tcp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,tp_src=9,tp_dst=7411,nw_tos=184"
    asks = "in_port=s1-h1,icmp6,ipv6_src=fd00::1,ipv6_dst=ff02::1:ff00:2,icmpv6_type=135"

    async def mark(controller):
        controller.core.mark({Flow("10.0.0.1", "10.0.0.2", port=7411): AROUND})
        await controller.settled(3)
        said = await asyncio.to_thread(ovs.trace, "s1", packet)
        assert re.findall(r'bridge\("(\w+)"\)', said) == ["s1", "s3", "s2"]
        # The traffic class's upper six bits, as Open vSwitch shows them of either IP.
        assert re.search(r"Final.*nw_tos=(\d+)", said)[1] == "32"
        said = await asyncio.to_thread(ovs.trace, "s1", f"{asks},nd_target=fd00::2")
        assert re.findall(r'bridge\("(\w+)"\)', said) == ["s1", "s2"]
        said = await asyncio.to_thread(ovs.trace, "s1", f"{asks},nd_target=fd00::9")
        assert re.findall(r'bridge\("(\w+)"\)', said) == ["s1"] and "drop" in said

    run(ovs, {}, mark, made)


def test_an_elephant_that_calls_itself_expedited_is_held_to_what_its_host_may_send(ovs):
    made = replace(square(), committed_bps={"h1": 8_000_000})
    marked = Flow("10.0.0.1", "10.0.0.2", UDP, 9, 7411)

    async def mark(controller):
        send = await asyncio.to_thread(sending, ovs, 7411, 184)
        first = await asyncio.to_thread(send, 500)
        assert first == pytest.approx(524_288 / 1_400, abs=3)
        then = await asyncio.to_thread(send, 100, 100)
        assert then - first == pytest.approx(8_000_000 / 8 * 0.1 / 1_400, abs=6)
        await asyncio.to_thread(ovs.run, *control, "time/warp", "1")
        # Marked, it goes behind all others, and as fast as there is room.
        controller.core.mark({marked: ()})
        await controller.settled(3)
        assert await asyncio.to_thread(send, 300) == then + 300

    control = ["ovs-appctl", "-t", f"{ovs.folder}/vswitchd.ctl"]
    run(ovs, {}, mark, made)
