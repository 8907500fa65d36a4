"""One transfer over two paths at once: switches lead each lane along its own, and count it."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
from types import SimpleNamespace

import pytest
from rig import WEIR, lab_lacks, until_async

from weir.calendar.agents.agent import routes
from weir.calendar.network import parse_network
from weir.control.serve import serve
from weir.lab import Lab, parse, switches
from weir.transfer import PAUSED

CABLES = [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s1", "s3"), ("s3", "s2")]
SQUARE = """\
[lab]
name = "lanes"
[hosts]
h1 = {}
h2 = {}
[routers]
s1 = { kind = "switch" }
s2 = { kind = "switch" }
s3 = { kind = "switch" }
""" + "".join(f'[[link]]\nends = ["{a}", "{b}"]\n' for a, b in CABLES)
DIRECT = ("h1s1.forward", "s1s2.forward", "s2h2.forward")
AROUND = ("h1s1.forward", "s1s3.forward", "s3s2.forward", "s2h2.forward")
PORTS = (7411, 7412)
SIZE = 6 * 2**20
RATES_BPS = (12 * 10**6, 4 * 10**6)


class Calendar:
    """A calendar with one transfer over two paths; what the controller posts to it."""

    def __init__(self, source, destination):
        lanes = [
            {"path": list(path), "rate_bps": rate_bps}
            for path, rate_bps in zip((DIRECT, AROUND), RATES_BPS, strict=True)
        ]
        self.assigned = {
            "id": "a",
            "rate_bps": sum(RATES_BPS),
            "path": list(DIRECT),
            "lanes": lanes,
            "size_bytes": SIZE,
            "source_address": source,
            "destination_address": destination,
            "data_address": f"{destination}:{PORTS[0]}",
            "data_ports": list(PORTS),
        }
        self.posted = []

    async def messages(self):
        yield {"kind": "snapshot", "assign": [self.assigned]}
        await asyncio.Event().wait()

    async def post(self, kind, body):
        self.posted.append(body)
        return {}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Switches that wait for a controller, and a file to send."""
    if lacking := switches.missing() or lab_lacks():
        pytest.skip(f"a lab of switches needs {lacking}")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    where = f"unix:{tmp_path}/c"
    (tmp_path / "file").write_bytes(os.urandom(SIZE))
    (tmp_path / "root").mkdir()
    with Lab.up(parse(SQUARE), controller=where) as up:
        nodes = {name: {"address": up.address(name)} for name in up.hosts}
        nodes |= {name: {"datapath": one.datapath_id} for name, one in up.switches().items()}
        links = [{"name": f"{a}{b}", "ends": [a, b], "capacity": "1 Gbit/s"} for a, b in CABLES]
        network = parse_network({"nodes": nodes, "links": links})
        yield SimpleNamespace(lab=up, where=where, network=network, folder=tmp_path)


def entered(site):
    """The bytes of each port that the first switch has counted, and those that passed s3."""
    first = _flows(site, "s1")
    found = dict.fromkeys(PORTS, 0)
    for count, port in re.findall(r"n_bytes=(\d+),.* priority=40000,.*tp_dst=(\d+)", first):
        found[int(port)] += int(count)
    around = re.findall(r"n_bytes=(\d+),.* priority=50000,", _flows(site, "s3"))
    return *found.values(), sum(map(int, around))


def _flows(site, switch):
    bridge = site.lab.switches()[switch]
    command = ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", str(bridge.management)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextlib.asynccontextmanager
async def controlled(site):
    """A controller of the switches, which has done what the calendar wants."""
    calendar = Calendar(site.lab.address("h1"), site.lab.address("h2"))
    told = []
    running = asyncio.create_task(serve(site.network, site.where, calendar, told.append))

    def is_ready():
        rules = _flows(site, "s1")
        return all(f"tp_dst={port}" in rules for port in PORTS) and entered(site)

    async def ready():
        while not await asyncio.to_thread(is_ready):
            assert not running.done(), told
            await asyncio.sleep(0.05)

    try:
        await asyncio.wait_for(ready(), 60)
        yield calendar
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@contextlib.contextmanager
def sending(site, calendar):
    """The transfer as an agent would send it: the process, and its events."""
    lab, folder = site.lab, site.folder
    listen = f"{lab.address('h2')}:{PORTS[0]}"
    serve = [WEIR, "serve", "--root", str(folder / "root"), "--insecure", "--json"]
    serve += ["--listen", listen, "--ports", str(len(PORTS))]
    send = [WEIR, "send", str(folder / "file"), f"{listen}/copy", "--insecure", "--json"]
    for route in routes(calendar.assigned, PAUSED):
        send += ["--route", f"{route.port}={route.rate.bit_per_s} bit/s"]
    with lab.popen("h2", serve, stdout=subprocess.PIPE, text=True) as server:
        assert json.loads(server.stdout.readline())["ports"] == list(PORTS)
        with lab.popen("h1", send, stdout=subprocess.PIPE, text=True) as sender:
            try:
                yield sender
            finally:
                sender.kill()
                server.kill()


def done(site, sender):
    """The last event of a transfer that has ended, and whether all of it is there."""
    events = [json.loads(line) for line in sender.stdout]
    whole = (site.folder / "root" / "copy").read_bytes() == (site.folder / "file").read_bytes()
    return events[-1]["event"], whole


def test_one_transfer_goes_over_two_paths_as_they_are_promised(site):
    async def work():
        async with controlled(site) as calendar:
            with sending(site, calendar) as sender:
                assert await asyncio.to_thread(done, site, sender) == ("done", True)
            # A switch counts a moment later.
            while sum((await asyncio.to_thread(entered, site))[:2]) < SIZE:
                await asyncio.sleep(0.05)
            direct, around, passed = await asyncio.to_thread(entered, site)
            # Three chunks go directly for one around; one path alone would have carried all.
            assert SIZE // 8 < around < SIZE // 2 < direct < SIZE
            assert SIZE <= direct + around < SIZE * 1.2
            assert passed > SIZE // 8

            def kept():
                return [one for body in calendar.posted for one in body["kept"]]

            # The booking is the sum of both.
            await until_async(lambda: kept() and kept()[-1]["carried_bytes"] >= SIZE, kept)
            assert kept()[-1]["id"] == "a"

    asyncio.run(work())


def test_a_path_that_is_cut_while_it_sends_is_no_end(site):
    async def work():
        async with controlled(site) as calendar:
            with sending(site, calendar) as sender:
                while (await asyncio.to_thread(entered, site))[2] < SIZE // 24:
                    assert sender.poll() is None
                await asyncio.to_thread(site.lab.cut, "s1-s3")
                before = (await asyncio.to_thread(entered, site))[2]
                assert await asyncio.to_thread(done, site, sender) == ("done", True)
            after = await asyncio.to_thread(entered, site)
            assert after[2] <= before + SIZE // 24
            assert after[0] > SIZE // 2

    asyncio.run(work())
