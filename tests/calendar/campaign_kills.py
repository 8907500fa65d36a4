"""kill -9 of the calendar's service, or of PostgreSQL below it, under load; nothing may be lost.

    export PYTHONPATH=tests
    python tests/calendar/campaign_kills.py --kills 60 --acknowledged 15000
    python tests/calendar/campaign_kills.py --victim postgresql --kills 25 --acknowledged 2500
    python tests/calendar/campaign_kills.py --victim standby --kills 25 --acknowledged 5000
    python tests/calendar/campaign_kills.py --victim replica --kills 10 --acknowledged 2000

Four submitters ask as fast as they are answered, cancel most of what was admitted, and repeat under
its key what was not answered. After each kill all that was acknowledged before it is looked for; in
the end every request is, of which each must be there once, and cancelled if that was acknowledged.

With `standby` a second service takes the place of the one that is killed, which is started again to
stand by; with `replica` the PostgreSQL below it is killed, too, and its replica promoted.

Prints one line of counts and ends with 0, or says what is wrong and ends with 1.
"""

import argparse
import contextlib
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
from calendar_lab import NETWORK, CalendarProcess, headers, request, wait_for
from clusters import Cluster
from standby_pair import Pair

from weir.calendar.client import CalendarClient

SUBMITTERS = 4
# Room for what is never carried out, as there is no agent.
ROOMY = NETWORK | {"links": [link | {"capacity": "100 Gbit/s"} for link in NETWORK["links"]]}
PATIENCE_S = 120


class Wrong(Exception):
    """Something that must not be."""


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--victim", choices=[*VICTIMS], default="service")
    arguments.add_argument("--kills", type=int, default=60)
    arguments.add_argument("--acknowledged", type=int, default=15_000, help="requests, at least")
    arguments.add_argument("--seed", type=int, default=1)
    args = arguments.parse_args()
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-kills-")))
        victim = VICTIMS[args.victim](folder)
        stack.callback(victim.stop)
        campaign = Campaign(victim, random.Random(args.seed))
        try:
            campaign.run(args.kills, args.acknowledged)
        except (Wrong, AssertionError) as error:
            print(f"seed {args.seed}: {error}\n{victim.log()[-2000:]}")
            return 1
    print(
        f"{args.kills} kills of {args.victim}: {campaign.counts['submitted']} requests admitted "
        f"and {campaign.counts['cancelled']} cancelled, each acknowledged; "
        f"{campaign.counts['unanswered']} not answered and repeated; {campaign.looks} looks at "
        f"what was acknowledged, and all of it in the end: nothing lost or doubled; "
        f"away {statistics.median(campaign.away_s):.1f} s each time (median, at most "
        f"{max(campaign.away_s):.1f} s); {time.monotonic() - began:.0f} s"
    )
    return 0


class OneService:
    """A service that is killed and started again."""

    def __init__(self, folder, store=None):
        self.process = CalendarProcess(folder, store, ROOMY).start()
        self.urls, self.token = [self.process.url], self.process.token

    def kill(self, dice):
        """kill -9, and whatever is done until requests are answered again."""
        self.process.kill()
        self.process.start()

    def restore(self):
        """Makes all ready for the next kill."""

    def stop(self):
        self.process.stop()

    def log(self):
        return (self.process.directory / "calendar.log").read_text()


class OnPostgres(OneService):
    """A service whose PostgreSQL is killed and started again."""

    def __init__(self, folder):
        self.cluster = Cluster(folder / "cluster")
        super().__init__(folder, f"{self.cluster.url}postgres")

    def kill(self, dice):
        self.cluster.kill()
        threading.Event().wait(dice.uniform(0.0, 0.5))
        self.cluster.start()
        wait_for(self.process.answers, PATIENCE_S)

    def stop(self):
        super().stop()
        self.cluster.stop()


class WithStandby:
    """A service that another one stands by."""

    def __init__(self, folder, store=None):
        self.pair = Pair(folder, store or f"sqlite:///{folder / 'calendar.db'}", ROOMY)
        self.pair.start()
        self.urls, self.token = [self.pair.serving.url], self.pair.token

    def kill(self, dice):
        self.pair.serving.kill()
        self.taken_over()

    def taken_over(self):
        wait_for(self.pair.waiting.answers, PATIENCE_S, 0.02)
        self.urls = [self.pair.waiting.url]

    def restore(self):
        self.pair.swap()

    def stop(self):
        self.pair.stop()

    def log(self):
        return self.pair.log()


class WithReplica(WithStandby):
    """The same, on a PostgreSQL that is killed, too, and whose replica is promoted."""

    def __init__(self, folder):
        self.folder, self.count = folder, 2
        self.primary = Cluster(folder / "cluster1")
        self.replica = Cluster(folder / "cluster2", primary=self.primary)
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.replica.port}"
        super().__init__(folder, f"postgresql://weir@{hosts}/postgres")

    def kill(self, dice):
        self.pair.serving.kill()
        self.primary.kill()
        threading.Event().wait(dice.uniform(0.0, 0.5))
        self.replica.promote()
        self.taken_over()

    def restore(self):
        self.count += 1
        port, self.primary = self.primary.port, self.replica
        place = self.folder / f"cluster{self.count}"
        self.replica = Cluster(place, primary=self.primary, port=port)
        super().restore()

    def stop(self):
        super().stop()
        self.replica.stop()
        self.primary.stop()


VICTIMS = {
    "service": OneService,
    "postgresql": OnPostgres,
    "standby": WithStandby,
    "replica": WithReplica,
}


class Campaign:
    """The load, the kills, and what was acknowledged."""

    def __init__(self, victim, dice):
        self.victim, self.dice = victim, dice
        self.looks, self.away_s = 0, []
        self.submitters = [Submitter(victim, n, random.Random(n)) for n in range(SUBMITTERS)]

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
        began = time.monotonic()
        self.victim.kill(self.dice)
        self.away_s.append(time.monotonic() - began)
        self.victim.restore()

    def look(self):
        """The last ones of each submitter, one by one."""
        with httpx.Client(base_url=self.victim.urls[0], timeout=60) as client:
            given = headers(self.victim.token)
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
        with CalendarClient(self.victim.urls[0], self.victim.token) as client:
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

    def __init__(self, victim, number, dice):
        super().__init__()
        self.victim, self.number, self.dice = victim, number, dice
        self.counts, self.wrong = Counter(), None
        # By key: the id that was acknowledged, and whether its cancellation was.
        self.admitted = {}
        self.stopping = threading.Event()

    def run(self):
        with httpx.Client(base_url=self.victim.urls[0], timeout=60) as client:
            client.headers.update(headers(self.victim.token))
            while not self.stopping.is_set() and not self.wrong:
                try:
                    self.one(client, f"s{self.number}-{len(self.admitted) + 1}")
                except Wrong as error:
                    self.wrong = str(error)

    def one(self, client, key):
        body = request(size_bytes=1_000, deadline_s=86_400.0, destination_path=key)
        given = {"Idempotency-Key": key}
        answer = self.asked(client, lambda: client.post("/v1/transfers", json=body, headers=given))
        if answer.status_code not in {200, 201}:
            raise Wrong(f"{key}: {answer.status_code} {answer.text}")
        identifier = answer.json()["id"]
        self.admitted[key] = (identifier, False)
        self.counts["submitted"] += 1
        if self.dice.random() < 0.2:
            return
        answer = self.asked(client, lambda: client.delete(address(identifier)))
        # 409: it was cancelled by the first of two questions, whose answer was lost.
        if answer.status_code not in {200, 409}:
            raise Wrong(f"{key}: {answer.status_code} {answer.text}")
        self.admitted[key] = (identifier, True)
        self.counts["cancelled"] += 1

    def asked(self, client, ask):
        def unanswered():
            self.counts["unanswered"] += 1
            client.base_url = self.victim.urls[0]

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


if __name__ == "__main__":
    sys.exit(main())
