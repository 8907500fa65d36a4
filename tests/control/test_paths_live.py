"""A transfer over two paths, end to end: calendar, agents, controller and switches, all real."""

import contextlib
import json
import os
import subprocess

import pytest
from rig import WEIR, lab_lacks
from test_lanes_live import CABLES, SQUARE

from weir.calendar.rest.tokens import TokenFile
from weir.lab import Lab, parse, switches

SIZE = 9 * 2**20
# Either path alone carries less than 60 % of it by then.
DEADLINE = "+10 s"
NARROW = {"s1s2", "s1s3", "s3s2"}


@pytest.fixture(params=["IPv4", "IPv6"])
def site(request, tmp_path, monkeypatch):
    """The lab, the calendar's host `h1` and all that runs there and at `h2`."""
    if lacking := switches.missing() or lab_lacks():
        pytest.skip(f"a lab of switches needs {lacking}")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    where = f"unix:{tmp_path}/c"
    for host in ("h1", "h2"):
        (tmp_path / host).mkdir()
    (tmp_path / "h1" / "file").write_bytes(os.urandom(SIZE))
    scenario = SQUARE.replace("[hosts]", "ipv6 = true\n[hosts]")
    with Lab.up(parse(scenario), controller=where) as up, contextlib.ExitStack() as stack:
        site = Site(up, tmp_path, stack)
        site.start("h1", "calendar", "serve", *site.calendar())
        site.start("h1", "control", "serve", "--network", site.network, "--listen", where)
        for host in ("h1", "h2"):
            taken_at = f"[{up.address6(host)}]" if request.param == "IPv6" else up.address(host)
            address = f"{taken_at}:7411"
            folder = ("--root", str(tmp_path / host), "--insecure")
            site.start(
                host,
                "agent",
                "--host",
                host,
                *folder,
                "--data-listen",
                address,
                "--data-ports",
                "2",
            )
        yield site


class Site:
    """Everything that runs in the lab; what its calendar says."""

    def __init__(self, lab: Lab, folder, stack: contextlib.ExitStack) -> None:
        self.lab, self._folder, self._stack = lab, folder, stack
        nodes = {
            name: {"address": lab.address(name), "address6": lab.address6(name)}
            for name in lab.hosts
        }
        nodes |= {name: {"datapath": one.datapath_id} for name, one in lab.switches().items()}
        links = [
            {"name": f"{a}{b}", "ends": [a, b], "capacity": capacity(f"{a}{b}")} for a, b in CABLES
        ]
        self.network = str(folder / "network.json")
        (folder / "network.json").write_text(json.dumps({"nodes": nodes, "links": links}))
        self._url = f"http://{lab.address('h1')}:8470"
        tokens = TokenFile(folder / "tokens.json")
        self._token = tokens.create("test", "admin")

    def calendar(self) -> list[str]:
        """What the calendar is told."""
        store = f"sqlite:///{self._folder / 'store.db'}"
        told = ["--network", self.network, "--store", store, "--policy", "weir", "--paths", "2"]
        tokens = str(self._folder / "tokens.json")
        return [*told, "--tokens", tokens, "--listen", self._url.removeprefix("http://")]

    def start(self, host: str, *command: str) -> None:
        """Runs a program of Weir's on a host until the end."""
        if command[:2] != ("calendar", "serve"):
            command = (*command, "--calendar", self._url, "--token", self._token)
        said = (self._folder / f"{host}-{command[0]}.log").open("w")
        self._stack.callback(said.close)
        process = self._stack.enter_context(
            self.lab.popen(host, [WEIR, *command], stdout=said, stderr=said)
        )
        self._stack.callback(process.kill)

    def ask(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command of the calendar's user."""
        words = [WEIR, "calendar", *command, "--url", self._url, "--token", self._token]
        return self.lab.run("h1", words, check=False, capture_output=True, text=True)

    def submit(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Asks for the file at `h2`, and waits for what becomes of it."""
        ends = ("h1:file", "h2:copy")
        told = ("--size", f"{SIZE} B", "--by", DEADLINE, "--json", *more)
        return self.ask("submit", *ends, *told)

    def until_ready(self) -> None:
        """Until both agents have come, and with them the way between them."""
        while True:
            said = self.ask("network", "--json")
            if said.returncode == 0:
                nodes = {x["name"]: x["agent"] for x in json.loads(said.stdout)["nodes"]}
                if nodes["h1"] == nodes["h2"] == "alive":
                    return


def capacity(link: str) -> str:
    return "8 Mbit/s" if link in NARROW else "1 Gbit/s"


def test_what_no_path_carries_alone_is_promised_and_sent_over_two(site, tmp_path):
    site.until_ready()
    alone = site.submit("--paths", "1")
    assert alone.returncode == 4, alone.stdout + alone.stderr
    done = site.submit("--paths", "2", "--wait")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "h2" / "copy").read_bytes() == (tmp_path / "h1" / "file").read_bytes()
    [one] = json.loads(site.ask("list", "--state", "finished", "--json").stdout)
    assert [len(lane["path"]) for lane in one["lanes"]] == [3, 4]
    # Each way has carried about half of it, and nothing twice.
    carried = {link["name"]: link["forward"]["bytes_out"] for link in site.lab.status()["links"]}
    assert SIZE // 4 < carried["s1-s3"] < SIZE
    assert SIZE // 4 < carried["s1-s2"] < SIZE
    assert SIZE < carried["s1-s2"] + carried["s1-s3"] < SIZE * 1.3
    # The switches say so themselves, of either IP.
    assert one["promise"]["carried_bytes"] > SIZE / 2
