"""kill -9 of the calendar's service, or of PostgreSQL below it, under load; nothing may be lost.

    export PYTHONPATH=tests
    python tests/calendar/campaign_kills.py --kills 60 --acknowledged 15000
    python tests/calendar/campaign_kills.py --victim postgresql --kills 25 --acknowledged 2500

Four submitters ask as fast as they are answered, cancel most of what was admitted, and repeat under
its key what was not answered. After each kill all that was acknowledged before it is looked for; in
the end every request is, of which each must be there once, and cancelled if that was acknowledged.

Prints one line of counts and ends with 0, or says what is wrong and ends with 1.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
from calendar_lab import NETWORK, CalendarProcess, headers, request, wait_for
from rig import free_port

SUBMITTERS = 4
# Room for what is never carried out, as there is no agent.
ROOMY = NETWORK | {"links": [link | {"capacity": "100 Gbit/s"} for link in NETWORK["links"]]}
PATIENCE_S = 120


class Wrong(Exception):
    """Something that must not be."""


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--victim", choices=["service", "postgresql"], default="service")
    arguments.add_argument("--kills", type=int, default=60)
    arguments.add_argument("--acknowledged", type=int, default=15_000, help="requests, at least")
    arguments.add_argument("--seed", type=int, default=1)
    args = arguments.parse_args()
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-kills-")))
        cluster = None
        if args.victim == "postgresql":
            cluster = Cluster(folder / "cluster", stack)
        process = CalendarProcess(folder, cluster and cluster.url, ROOMY)
        stack.callback(process.stop)
        campaign = Campaign(process.start(), cluster, random.Random(args.seed))
        try:
            campaign.run(args.kills, args.acknowledged)
        except (Wrong, AssertionError) as error:
            log = (folder / "calendar.log").read_text()[-2000:]
            print(f"seed {args.seed}: {error}\n{log}")
            return 1
    print(
        f"{args.kills} kills of {args.victim}: {campaign.counts['submitted']} requests admitted "
        f"and {campaign.counts['cancelled']} cancelled, each acknowledged; "
        f"{campaign.counts['unanswered']} not answered and repeated; {campaign.looks} looks at "
        f"what was acknowledged, and all of it in the end: nothing lost or doubled; "
        f"{time.monotonic() - began:.0f} s"
    )
    return 0


class Campaign:
    """The load, the kills, and what was acknowledged."""

    def __init__(self, process, cluster, dice):
        self.process, self.cluster, self.dice = process, cluster, dice
        self.looks = 0
        self.submitters = [Submitter(process, n, random.Random(n)) for n in range(SUBMITTERS)]

    @property
    def counts(self):
        return sum((submitter.counts for submitter in self.submitters), Counter())

    def run(self, kills, acknowledged):
        for submitter in self.submitters:
            submitter.start()
        try:
            for number in range(1, kills + 1):
                self.until(acknowledged * number / kills)
                self.kill()
                self.look()
        finally:
            for submitter in self.submitters:
                submitter.stopping.set()
            for submitter in self.submitters:
                submitter.join()
        self.check()

    def until(self, count):
        """Goes on under load until so many were admitted, and for a random moment."""
        while (done := self.counts["submitted"]) < count:
            wait_for(lambda done=done: self.moved(done), PATIENCE_S, 0.05)
        threading.Event().wait(self.dice.uniform(0.0, 0.5))

    def moved(self, done):
        for submitter in self.submitters:
            if submitter.wrong:
                raise Wrong(submitter.wrong)
        return self.counts["submitted"] > done

    def kill(self):
        # Nobody could answer what is noted before the kill but the one that is killed.
        self.known = [list(submitter.admitted.items()) for submitter in self.submitters]
        if self.cluster is None:
            self.process.kill()
            self.process.start()
            return
        self.cluster.kill()
        threading.Event().wait(self.dice.uniform(0.0, 0.5))
        self.cluster.start()
        wait_for(self.process.answers, PATIENCE_S)

    def look(self):
        """The last ones of each submitter, one by one."""
        with httpx.Client(base_url=self.process.url, timeout=60) as client:
            given = headers(self.process.token)
            for known in self.known:
                for key, (identifier, cancelled) in known[-10:]:
                    answer = patient(lambda i=identifier: client.get(address(i), headers=given))
                    self.looks += 1
                    if answer.status_code != 200:
                        raise Wrong(f"{key}, {identifier}: {answer.status_code} after a kill")
                    if cancelled and answer.json()["state"] != "cancelled":
                        raise Wrong(f"{key}, {identifier}: cancelled, and is not after a kill")

    def check(self):
        """All that there is, against all that was acknowledged."""
        there = {}
        with self.process.client() as client:
            before = None
            while page := client._call("GET", page_address(before)):
                there |= {one["id"]: one["state"] for one in page}
                before = page[-1]["id"]
        said = {}
        for submitter in self.submitters:
            self.moved(0)
            said |= dict(submitter.admitted.values())
        if there.keys() != said.keys():
            lost, more = len(said.keys() - there.keys()), len(there.keys() - said.keys())
            raise Wrong(f"{lost} of {len(said)} are lost, {more} are there that nobody was told of")
        for identifier, cancelled in said.items():
            if (there[identifier] == "cancelled") != cancelled:
                raise Wrong(f"{identifier} is {there[identifier]}; cancelled: {cancelled}")


class Submitter(threading.Thread):
    """Submits and cancels as fast as it is answered; asks again until it is."""

    def __init__(self, process, number, dice):
        super().__init__()
        self.process, self.number, self.dice = process, number, dice
        self.counts, self.wrong = Counter(), None
        # By key: the id that was acknowledged, and whether its cancellation was.
        self.admitted = {}
        self.stopping = threading.Event()

    def run(self):
        with httpx.Client(base_url=self.process.url, timeout=60) as client:
            client.headers.update(headers(self.process.token))
            while not self.stopping.is_set() and not self.wrong:
                try:
                    self.one(client, f"s{self.number}-{len(self.admitted) + 1}")
                except Wrong as error:
                    self.wrong = str(error)

    def one(self, client, key):
        body = request(size_bytes=1_000, deadline_s=86_400.0, destination_path=key)
        given = {"Idempotency-Key": key}
        answer = self.asked(lambda: client.post("/v1/transfers", json=body, headers=given))
        if answer.status_code not in {200, 201}:
            raise Wrong(f"{key}: {answer.status_code} {answer.text}")
        identifier = answer.json()["id"]
        self.admitted[key] = (identifier, False)
        self.counts["submitted"] += 1
        if self.dice.random() < 0.2:
            return
        answer = self.asked(lambda: client.delete(address(identifier)))
        # 409: it was cancelled by the first of two questions, whose answer was lost.
        if answer.status_code not in {200, 409}:
            raise Wrong(f"{key}: {answer.status_code} {answer.text}")
        self.admitted[key] = (identifier, True)
        self.counts["cancelled"] += 1

    def asked(self, ask):
        def unanswered():
            self.counts["unanswered"] += 1

        return patient(ask, unanswered)


def patient(ask, unanswered=lambda: None):
    """The first answer that is one: not a lost connection, and not 503."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with contextlib.suppress(httpx.HTTPError):
            answer = ask()
            if answer.status_code != 503:
                return answer
        unanswered()
        time.sleep(0.3)
    raise Wrong(f"not answered within {PATIENCE_S} s")


def address(identifier):
    return f"/v1/transfers/{identifier}"


def page_address(before):
    return "/v1/transfers?limit=1000" + (f"&before={before}" if before else "")


class Cluster:
    """PostgreSQL with all its defaults of durability, to be killed."""

    def __init__(self, directory, stack):
        candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        self.binaries, self.directory, self.port = candidates[0], directory, free_port()
        self.as_user = []
        directory.mkdir()
        directory.parent.chmod(0o755)
        if os.geteuid() == 0:
            self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
            shutil.chown(directory, "postgres", "postgres")
        self.data = directory / "data"
        self.run("initdb", "-D", self.data, "-U", "weir", "-E", "UTF8", "--auth=trust")
        stack.callback(self.run, "pg_ctl", "-D", self.data, "-m", "immediate", "stop")
        self.start()
        self.url = f"postgresql://weir@127.0.0.1:{self.port}/postgres"

    def run(self, program, *arguments):
        command = [*self.as_user, self.binaries / program, *arguments]
        with (self.directory / "log").open("ab") as log:
            return subprocess.run(command, cwd="/", stdout=log, stderr=log, timeout=120).returncode

    def start(self):
        options = f"-p {self.port} -k {self.directory} -h 127.0.0.1"
        log = self.directory / "server.log"
        start = ("pg_ctl", "-D", self.data, "-w", "-o", options, "-l", log, "start")
        # The killed one's children may hold its memory for a moment.
        wait_for(lambda: self.run(*start) == 0, PATIENCE_S, 0.2)

    def kill(self):
        os.kill(int((self.data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
