"""A calendar with its agents on the hosts of a lab, each a process that can be killed.

Unless asked for another network, four sites' hosts and one shared link:

dtn1 --+                         +-- dtn3
       west ------ core ------ east
dtn2 --+    100 Mbit/s, 10 ms    +-- dtn4        control hangs on west, with no delay
"""

import contextlib
import json
import os
import random
import signal
import sys
import threading
import time

import httpx
from calendar_lab import wait_for
from rig import PATIENCE_S, WEIR, sha256

from weir.calendar.client import CalendarClient
from weir.calendar.rest.tokens import TokenFile
from weir.errors import Unavailable
from weir.lab import parse

CORE_BPS = 100_000_000
HOSTS = ("dtn1", "dtn2", "dtn3", "dtn4")
LINKS = {
    "access1": ("dtn1", "west", 1_000_000_000, "1 ms"),
    "access2": ("dtn2", "west", 1_000_000_000, "1 ms"),
    "core": ("west", "east", CORE_BPS, "10 ms"),
    "access3": ("east", "dtn3", 1_000_000_000, "1 ms"),
    "access4": ("east", "dtn4", 1_000_000_000, "1 ms"),
}
# What the calendar may give away of each link: the rest is for acknowledgements and its own talk.
SHARE = 0.95
PORT = 8470
DATA_PORT = 7411

# Lets this process speak to the calendar inside the lab: a Unix socket there, TCP on the inside.
_RELAY = """
import asyncio, sys
async def main(path, host, port):
    async def copy(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
    async def serve(reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
    server = await asyncio.start_unix_server(serve, path)
    await server.serve_forever()
asyncio.run(main(*sys.argv[1:]))
"""
# An agent whose mover ignores every rate it is told.
_CHEAT = """
import sys
from weir import Rate
from weir.calendar.agents import agent
agent.pace = lambda rate_bps: Rate("2 Gbit/s")
from weir.cli import main
sys.exit(main())
"""


def scenario():
    text = '[lab]\nname = "fleet"\n[hosts]\n'
    text += "".join(f"{name} = {{}}\n" for name in (*HOSTS, "control"))
    text += "[routers]\nwest = {}\neast = {}\n"
    for name, (left, right, rate_bps, delay) in LINKS.items():
        text += f'[[link]]\nname = "{name}"\nends = ["{left}", "{right}"]\n'
        text += f'rate = "{rate_bps} bit/s"\ndelay = "{delay}"\n'
    return parse(text + '[[link]]\nends = ["control", "west"]\nrate = "1 Gbit/s"\ndelay = "0 ms"\n')


class Follower(threading.Thread):
    """Follows the calendar's events through every restart of it, missing none."""

    def __init__(self, fleet):
        super().__init__(daemon=True)
        self.fleet, self.events, self.stopping = fleet, [], False

    def run(self):
        while not self.stopping:
            with contextlib.suppress(Unavailable), self.fleet.client() as client:
                last = self.events[-1]["id"] if self.events else 0
                for event in client.events(last):
                    self.events.append(event)
                    if self.stopping:
                        return
            time.sleep(0.1)


class Fleet:
    """The processes of a calendar and its agents, each of which can be killed and started.

    The calendar's network is `links`, and its service runs on the node `control`.
    """

    def __init__(self, lab, directory, links=LINKS, control="control"):
        self.lab, self.directory, self.control = lab, directory, control
        self.processes = {}
        ends = {node for link in links.values() for node in link[:2]}
        nodes = {name: {"address": lab.address(name)} for name in sorted(ends)}
        shares = [
            {"name": name, "ends": [left, right], "capacity_bps": int(rate_bps * SHARE)}
            for name, (left, right, rate_bps, _) in links.items()
        ]
        self.network = directory / "network.json"
        self.network.write_text(json.dumps({"nodes": nodes, "links": shares}))
        self.token = TokenFile(directory / "tokens.json").create("fleet", "admin")
        self.url = f"http://{lab.address(control)}:{PORT}"
        self.environment = os.environ | {
            "WEIR_CALENDAR_URL": self.url,
            "WEIR_CALENDAR_TOKEN": self.token,
        }
        for host in ends & set(lab.hosts):
            self.root(host).mkdir()
        relay = [
            sys.executable,
            "-c",
            _RELAY,
            directory / "relay",
            lab.address(control),
            str(PORT),
        ]
        self._start("relay", control, relay)
        # httpx leaves a socket open that could not be connected.
        wait_for((directory / "relay").is_socket)
        self.follower = Follower(self)
        self.follower.start()

    def root(self, host):
        return self.directory / host

    def close(self):
        self.follower.stopping = True
        relay = self.processes.pop("relay")
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        # Without a service its stream ends.
        self.follower.join(60)
        relay.kill()
        relay.wait()

    def client(self):
        client = CalendarClient(self.url, self.token)
        client.close()
        transport = httpx.HTTPTransport(uds=str(self.directory / "relay"))
        client._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.token}"},
            transport=transport,
            timeout=PATIENCE_S,
        )
        return client

    # --- processes ---

    def _start(self, name, node, argv):
        log = (self.directory / f"{name}.log").open("ab")
        with log:
            self.processes[name] = self.lab.popen(
                node, argv, env=self.environment, stdout=log, stderr=log
            )

    def kill(self, name, number=signal.SIGKILL):
        self.processes[name].send_signal(number)
        self.processes[name].wait(60)

    def start_service(self):
        self.launch_service()
        wait_for(self.answers)

    def launch_service(self):
        self._start(
            "service",
            self.control,
            [
                *(WEIR, "calendar", "serve", "--network", self.network, "--epoch", "2 s"),
                *("--store", f"sqlite:///{self.directory / 'calendar.db'}"),
                *("--tokens", self.directory / "tokens.json"),
                *("--listen", f"{self.lab.address(self.control)}:{PORT}"),
            ],
        )

    def answers(self):
        assert self.processes["service"].poll() is None, self.log("service")
        with contextlib.suppress(Unavailable), self.client() as client:
            return client.network()

    def start_agent(self, host, program=(WEIR,), receive="--data-listen", cca="cubic"):
        data = f"{self.lab.address(host)}:{DATA_PORT}"
        self._start(
            host,
            host,
            [
                *(*program, "agent", "-v", "--host", host, "--root", self.root(host)),
                *("--insecure", receive, data, "--cca", cca),
            ],
        )

    def start_server(self, host):
        """Receives on a host whose agent only says so: started with `receive="--advertise"`."""
        data = f"{self.lab.address(host)}:{DATA_PORT}"
        command = [WEIR, "serve", "--root", self.root(host), "--listen", data, "--insecure"]
        self._start("server", host, command)

    def start_cheat(self, host):
        self.start_agent(host, (sys.executable, "-c", _CHEAT))

    def start_edge(self, router, link):
        device = f"{self.lab.device(router, link)}={CORE_BPS} bit/s"
        self._start(
            "edge", router, [WEIR, "agent", "-v", "--edge", "--host", router, "--device", device]
        )

    def wait_alive(self, *hosts):
        def alive():
            with self.client() as client:
                states = {node["name"]: node["agent"] for node in client.network()["nodes"]}
            return all(states[host] == "alive" for host in hosts)

        wait_for(alive, every_s=0.1)

    def log(self, name):
        return (self.directory / f"{name}.log").read_text()

    # --- transfers ---

    def make(self, host, name, size_bytes, seed=1):
        path = self.root(host) / name
        content, whole = random.Random(seed), 1 << 20
        with path.open("wb") as file:
            for at in range(0, size_bytes, whole):
                file.write(content.randbytes(min(whole, size_bytes - at)))
        return path

    def submit(self, source, destination, name, deadline_s, **more):
        body = {
            "source": source,
            "source_path": name,
            "destination": destination,
            "destination_path": f"in/{name}",
            "deadline_s": float(deadline_s),
        }
        with self.client() as client:
            return client.submit(body | more)

    def show(self, identifier):
        with self.client() as client:
            return client.show(identifier)

    def finished(self, identifier, timeout_s=PATIENCE_S):
        def over():
            shown = self.show(identifier)
            return shown if shown["state"] in {"completed", "failed", "cancelled"} else None

        return wait_for(over, timeout_s, 0.1)

    def saw(self, kind, transfer=None):
        """The events of a kind seen so far, oldest first."""
        return [
            event
            for event in list(self.follower.events)
            if event["kind"] == kind and event["transfer"] == transfer
        ]

    def assert_same(self, source, destination, name):
        sent, received = self.root(source) / name, self.root(destination) / "in" / name
        assert sha256(sent) == sha256(received)

    def wire_bytes(self, link):
        """Bytes that have left the link forward so far."""
        links = {x["name"]: x for x in self.lab.status()["links"]}
        return links[link]["forward"]["bytes_out"]

    def wire_bps(self, link, seconds):
        """The least and the most that the rate on a link can have been, over a while.

        When the counters were read is known no better than when the lab was asked and answered.
        """
        asked_s = time.monotonic()
        before = self.wire_bytes(link)
        answered_s = time.monotonic()
        while time.monotonic() < answered_s + seconds:
            time.sleep(0.05)
        again_s = time.monotonic()
        bits = (self.wire_bytes(link) - before) * 8
        return bits / (time.monotonic() - asked_s), bits / (again_s - answered_s)
