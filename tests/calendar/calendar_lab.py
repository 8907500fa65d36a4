"""What the calendar's tests share: a network, requests, a process to kill, a patient poll."""

import contextlib
import json
import signal
import subprocess
import time
from pathlib import Path

import httpx
from rig import PATIENCE_S, WEIR, free_port

from weir import Time
from weir.calendar.client import CalendarClient
from weir.calendar.network import parse_network
from weir.calendar.rest.tokens import TokenFile
from weir.calendar.settings import Settings
from weir.errors import Unavailable

# Two sites behind a router each, one shared link of 1 Gbit/s between the routers.
NETWORK = {
    "nodes": ["dtn1", "dtn2", "dtn3", "dtn4", "west", "east"],
    "links": [
        {"name": "access1", "ends": ["dtn1", "west"], "capacity": "10 Gbit/s"},
        {"name": "access2", "ends": ["dtn2", "west"], "capacity": "10 Gbit/s"},
        {"name": "core", "ends": ["west", "east"], "capacity": "1 Gbit/s"},
        {"name": "access3", "ends": ["east", "dtn3"], "capacity": "10 Gbit/s"},
        {"name": "access4", "ends": ["east", "dtn4"], "capacity": "10 Gbit/s"},
    ],
}


def settings(policy="local-ljf", network=NETWORK, margin="1 s"):
    return Settings(parse_network(network), policy, Time("5 s"), Time(margin))


def request(**changes):
    """A request that an empty network admits."""
    body = {
        "source": "dtn1",
        "source_path": "data/file",
        "destination": "dtn3",
        "destination_path": "inbox/file",
        "size_bytes": 1_000_000_000,
        "deadline_s": 60.0,
    }
    body |= changes
    return {key: value for key, value in body.items() if value is not None}


def message(told):
    """What an agent reads of a piece of its stream."""
    return json.loads(told.decode().partition("data: ")[2])


def weir(calendar, *arguments, code=0):
    """What `weir calendar` prints of a service, which ends with this code."""
    known = ["--url", calendar.url, "--token", calendar.token]
    done = subprocess.run([WEIR, "calendar", *arguments, *known], capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def wait_for(probe, timeout_s=PATIENCE_S, every_s=0.02):
    """Polls `probe` until it returns something true, and returns that."""
    end = time.monotonic() + timeout_s
    while True:
        found = probe()
        if found:
            return found
        assert time.monotonic() < end, f"not within {timeout_s} s: {probe}"
        time.sleep(every_s)


def patient_client(url, **more):
    """A client that waits, and has a connection for each request: one that is kept may be closed
    by the service just as it is used again."""
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(base_url=url, timeout=PATIENCE_S, limits=limits, **more)


def headers(token, **more):
    return {"Authorization": f"Bearer {token}", **more}


class CalendarProcess:
    """A real `weir calendar serve` that can be killed and started again."""

    def __init__(self, directory: Path, store: str | None = None, network=NETWORK, options=()):
        self.directory = directory
        self.store = store or f"sqlite:///{directory / 'calendar.db'}"
        self.tokens = directory / "tokens.json"
        self.network = directory / "network.json"
        self.network.write_text(json.dumps(network))
        self.options = list(options)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None
        self.token = None
        if not self.tokens.exists():
            self.token = TokenFile(self.tokens).create("test", "admin")

    def command(self):
        return [
            *(WEIR, "calendar", "serve", "--network", str(self.network)),
            *("--store", self.store, "--tokens", str(self.tokens)),
            *("--listen", f"127.0.0.1:{self.port}", "--epoch", "5 s", *self.options),
        ]

    def start(self):
        log = (self.directory / "calendar.log").open("ab")
        self.process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        log.close()
        try:
            wait_for(self.answers, 2 * PATIENCE_S)
        except BaseException:
            self.stop()
            raise
        return self

    def answers(self):
        assert self.process.poll() is None, (self.directory / "calendar.log").read_text()
        with contextlib.suppress(Unavailable), self.client() as client:
            return client.network()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE_S)

    def client(self):
        return CalendarClient(self.url, self.token)
