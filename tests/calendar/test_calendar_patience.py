"""What may pass is tried until the deadline, what cannot is told at once."""

import asyncio
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from calendar_lab import request, wait_for
from calendar_pair import Pair
from pydantic import ValidationError
from rig import PATIENCE_S, sha256

from weir import Bytes
from weir.calendar.agents import agent as agent_module
from weir.calendar.agents.agent import FAILURES_MAX, HostAgent, Job, MoverOptions
from weir.calendar.agents.turns import TURN_MAX
from weir.calendar.service.models import TransferRequest
from weir.errors import BadInput, Refused, TransferFailed, Unavailable, Unsupported

HOSTS = "127.0.0.1 localhost\n"
HANGS_S = 200


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The sending agent has a hosts file of its own, which has a name for the other."""
    directory = tmp_path_factory.mktemp("pair")
    hosts = directory / "hosts"
    hosts.write_text(f"{HOSTS}127.0.0.1 dtn9\n")
    bind = 'mount --make-rprivate / && mount --bind "$0" /etc/hosts && exec "$@"'
    pair = Pair(directory, name="dtn9", wrap=["unshare", "-m", "sh", "-c", bind, str(hosts)])
    yield pair
    pair.close()


def shows(pair, identifier, words):
    return lambda: words in (pair.show(identifier)["error"] or "")


def make(pair, name, size=2_000_000):
    place = pair.directory / "dtn1" / name
    place.write_bytes(b"x" * size)
    return place


def test_a_name_that_does_not_resolve_for_a_while_delays_and_no_more(pair):
    hosts = pair.directory / "hosts"
    hosts.write_text(HOSTS)
    source = make(pair, "named")
    made = pair.submit("named")["id"]
    wait_for(shows(pair, made, "unknown host"))
    assert pair.show(made)["state"] == "accepted"
    hosts.write_text(f"{HOSTS}127.0.0.1 dtn9\n")
    shown = pair.finished(made)
    assert (shown["state"], shown["on_time"]) == ("completed", True), shown
    assert sha256(source) == sha256(pair.received("named"))


@pytest.fixture
def small_disk(pair):
    """A file system of 4 MB to receive on."""
    place = pair.directory / "dtn3" / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "weir-test", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_disk_that_is_full_for_a_while_delays_and_no_more(pair, small_disk):
    (small_disk / "fill").write_bytes(b"x" * 3_000_000)
    source = make(pair, "large")
    made = pair.submit("large", destination_path="small/large")["id"]
    wait_for(shows(pair, made, "no room"))
    end = time.monotonic() + 3
    while time.monotonic() < end:  # as long as it is so, through several attempts
        shown = pair.show(made)
        assert shown["state"] in {"accepted", "running"}
        assert "no room" in (shown["error"] or ""), shown
    (small_disk / "fill").unlink()
    shown = pair.finished(made)
    assert (shown["state"], shown["on_time"]) == ("completed", True), shown
    assert sha256(source) == sha256(small_disk / "large")


def test_a_directory_that_becomes_a_link_while_it_is_sent_leads_nowhere(pair, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "zz").write_text("SECRET")
    tree = pair.directory / "dtn1" / "tree"
    (tree / "sub").mkdir(parents=True)
    for number in range(3_000):
        (tree / "sub" / f"a{number:04}").write_bytes(b"x" * 1_000)
    (tree / "sub" / "zz").write_text("mine")
    made = pair.submit("tree", rate_max="20 Mbit/s")["id"]
    there = pair.received("tree") / "sub"
    wait_for((there / "a0000").exists, every_s=0.002)
    (tree / "sub").rename(tree / ".old")
    (tree / "sub").symlink_to(secret)
    wait_for(lambda: pair.show(made)["error"] or pair.show(made)["state"] == "completed")
    assert "SECRET" not in "".join(x.read_text() for x in there.glob("zz"))


# --- without processes ---


@pytest.mark.parametrize("path", [".", "./", "/", "//.", "a/..", "../a"])
@pytest.mark.parametrize("field", ["source_path", "destination_path"])
def test_a_path_names_something_below_the_root(field, path):
    with pytest.raises(ValidationError, match=r"below the host's root|climb"):
        TransferRequest(**(request() | {field: path}))
    assert TransferRequest(**(request() | {field: "/a/./b//c/"})).model_dump()[field] == "a/b/c"


class Line:
    """Notes what an agent posts."""

    def __init__(self):
        self.posted = []

    async def post(self, kind, body):
        self.posted.append((kind, body))
        return {"stop": []}


def agent():
    line = Line()
    return line, HostAgent(line, MoverOptions(Path("/nowhere"), None))


def job(identifier="a", left_s=600.0):
    return Job({"id": identifier, "deadline_ns": int((time.time() + left_s) * 1e9)})


@pytest.mark.parametrize(
    "error",
    [
        TransferFailed("no space left"),
        Unavailable("broke off"),
        BadInput('unknown host "dtn9": Name or service not known'),
        OSError(24, "Too many open files"),
    ],
)
def test_what_may_pass_is_tried_until_the_deadline(error):
    _, tries = agent()
    one = job()
    for _ in range(50 * FAILURES_MAX):
        tries._stumble(one, error)
        assert not one.ended
        assert one.retry_at_s <= time.monotonic() + 10
    assert one.report(0.0)["error"]
    late = job(left_s=-1.0)
    for _ in range(FAILURES_MAX):
        assert not late.ended
        tries._stumble(late, error)
    # Who is away may come back however late it is.
    assert late.ended != isinstance(error, Unavailable)


@pytest.mark.parametrize(
    "error",
    [
        BadInput('"x" is not there'),
        Refused("unknown keys"),
        Unsupported("no bbr"),
        PermissionError(13, "Permission denied", "/x"),
    ],
)
def test_what_cannot_pass_is_told_at_once(error):
    _, tries = agent()
    one = job()
    tries._stumble(one, error)
    assert (one.ended, one.state) == (True, "failed")


def fill(many, count):
    """Gives an agent so many jobs, and returns their ids."""
    many._jobs.update({f"j{number}": job(f"j{number}") for number in range(count)})
    return set(many._jobs)


def told(line):
    """The ids of each report that was sent, which are forgotten."""
    reports = [[x["id"] for x in body["transfers"]] for _, body in line.posted]
    line.posted.clear()
    return reports


def test_a_report_of_many_transfers_is_split():
    line, many = agent()
    known = fill(many, 10_001)
    asyncio.run(many._report())
    reports = told(line)
    assert sum(map(len, reports)) == 10_001
    assert max(map(len, reports)) <= 10_000
    assert set().union(*reports) == known
    # With nothing to do it is a sign of life.
    many._jobs.clear()
    asyncio.run(many._report())
    assert told(line) == [[]]


def test_transfers_without_news_are_reported_in_turn_and_others_at_once():
    line, many = agent()
    known = fill(many, 1_050)
    many._jobs["j7"].assignment["deadline_ns"] = time.time_ns() + 10**10
    asyncio.run(many._report())
    assert set(told(line)[0]) == known
    many._jobs["j1000"].error = "No space left on device"
    asyncio.run(many._report())
    (first,) = told(line)
    assert {"j7", "j1000"} < set(first)
    assert len(first) == TURN_MAX + 2
    # Everyone's turn comes before anybody's second.
    turns = [x for x in first if x not in {"j7", "j1000"}]
    while len(turns) < 1_040:
        asyncio.run(many._report())
        (report,) = told(line)
        assert len(report) <= TURN_MAX + 1
        turns += [x for x in report if x != "j7"]
    assert set(turns[:1_048]) == known - {"j7", "j1000"}


class Begun:
    """A mover that has begun and gets nowhere."""

    def start(self):
        pass

    def set_rate(self, rate):
        pass

    def cancel(self):
        pass

    def take_notices(self):
        return []

    def progress(self):
        nothing = Bytes.from_count(0)
        return SimpleNamespace(state="connecting", total_is_known=False, bytes_durable=nothing)


def test_a_source_whose_file_system_does_not_answer_holds_up_no_other(monkeypatch):
    """Each is looked at apart from the loop, and one that hangs is not asked for again."""
    hung, asked = threading.Event(), []

    def prepared(assignment, *_, **__):
        asked.append(assignment["id"])
        if assignment["id"] == "hangs":
            hung.wait(HANGS_S)
        return Begun()

    monkeypatch.setattr(agent_module, "_prepared", prepared)
    _, busy = agent()
    for name in ("hangs", "fine", "released"):
        busy._jobs[name] = job(name)
        busy._jobs[name].assignment |= {"data_address": "127.0.0.1:1", "rate_bps": 10**6}

    async def looked_after(seconds_max, until):
        end_s = time.monotonic() + seconds_max
        while not until() and time.monotonic() < end_s:
            for one in list(busy._jobs.values()):
                busy._look_after(one)
            await asyncio.sleep(0.01)
        assert until()

    async def scenario():
        began_s = time.monotonic()
        for one in list(busy._jobs.values()):
            busy._look_after(one)
        busy._release("released")
        await looked_after(60, lambda: busy._jobs["fine"].transfer is not None)
        await looked_after(60, lambda: busy._jobs["hangs"].error)
        assert "does not answer in time" in busy._jobs["hangs"].error
        # Long enough for what is tried again to be tried again.
        wait_s = busy._jobs["hangs"].retry_at_s + 0.2
        await looked_after(30, lambda: time.monotonic() > wait_s)
        assert asked.count("hangs") == 1
        # What hangs would hold it up for as long as it does.
        assert time.monotonic() - began_s < 0.8 * HANGS_S
        hung.set()
        await looked_after(30, lambda: busy._jobs["hangs"].transfer is not None)
        assert "released" not in busy._jobs

    try:
        asyncio.run(scenario())
    finally:
        hung.set()


def test_where_nothing_answers_only_so_many_threads_wait(monkeypatch):
    hung, waiting = threading.Event(), []

    def prepared(assignment, *_, **__):
        waiting.append(assignment["id"])
        return hung.wait(HANGS_S) and Begun()

    monkeypatch.setattr(agent_module, "_prepared", prepared)
    _, busy = agent()
    count = agent_module.BEGINNINGS_MAX + 50
    for number in range(count):
        one = busy._jobs[str(number)] = job(str(number))
        one.assignment |= {"data_address": "127.0.0.1:1", "rate_bps": 10**6}

    async def look():
        for one in list(busy._jobs.values()):
            busy._look_after(one)
            await asyncio.sleep(0)

    async def scenario():
        async with asyncio.timeout(PATIENCE_S):
            while len(waiting) < agent_module.BEGINNINGS_MAX:
                await look()
        for _ in range(3):
            await look()
            await asyncio.sleep(0.05)
        assert len(waiting) == agent_module.BEGINNINGS_MAX
        hung.set()

    try:
        asyncio.run(scenario())
    finally:
        hung.set()
