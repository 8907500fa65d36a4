"""Who sends ahead of its plan over several paths, against a linear program for each in its turn.

Between two events rates are constant, and the order is: the late ones first, and of the rest, or
among these, the earliest deadline. The program is told what those before have, what those have
that need not yield because they are not due much later, and what is owed to all others by their
plans. It gives the most that one in its turn could send over its paths.
"""

import json
import random
from collections import defaultdict
from itertools import pairwise

import pytest
from campaign_cuts import MBIT, network, ring

from weir import Bytes, Time
from weir._core import Calendar
from weir.milp import Model

S = 1_000_000_000
EPOCH_S = 10
# Whoever is due after so many times as long yields what it sends ahead over several paths.
PATIENCE = 8


def bare_ring(chance):
    """Two ways between any two nodes that share nothing."""
    names = "abcde"[: chance.choice((3, 4, 5))]
    ends = [*pairwise(names), (names[-1], names[0])]
    return network([(a, b, chance.choice((500, 1000))) for a, b in ends])


class State:
    """What a calendar's snapshot says of everybody who may send."""

    def __init__(self, calendar):
        told = json.loads(calendar.snapshot())
        now_ns = self.now_ns = told["clock_ns"]
        self.flows = {x["id"]: x for x in told["flows"] if x["start_ns"] <= now_ns}
        self.paths = {x: [path for path, _ in calendar.lanes(x)] for x in self.flows}
        self.owed, self.is_late = {}, {}
        for name, flow in self.flows.items():
            self.owed[name] = [0] * len(self.paths[name])
            reserved = 0
            for piece in flow["plan"]:
                reserved += (piece["end_ns"] - piece["start_ns"]) * piece["rate_bps"]
                if piece["start_ns"] <= now_ns < piece["end_ns"]:
                    self.owed[name][piece["path"]] += piece["rate_bps"]
            left = flow["remaining"]["bytes"] * 8 * S + flow["remaining"]["nanobits"]
            self.is_late[name] = left > reserved

    def stays(self, name, other):
        """Whether another one in a later turn goes on as before over several paths."""
        if self.is_late[name] or self.is_late[other] or len(self.paths[other]) == 1:
            return False
        left_ns = max(0, self.flows[name]["deadline_ns"] - self.now_ns)
        return self.flows[other]["deadline_ns"] <= self.now_ns + PATIENCE * left_ns

    def in_turn(self):
        """Their names, who comes first ahead."""

        def order(name):
            flow = self.flows[name]
            return not self.is_late[name], flow["deadline_ns"], flow["number"]

        return sorted(self.flows, key=order)


def most_bps(state, name, left_bps, at_least):
    """The most that one can send of what is left of links, so much of it or more on each path."""
    program = Model()
    lanes = [program.column(-1.0, float(bps), 1e12) for bps in at_least]
    crossing = defaultdict(list)
    for lane, path in zip(lanes, state.paths[name], strict=True):
        for link in path:
            crossing[link].append((lane, 1.0))
    for link, terms in crossing.items():
        program.row(terms, most=float(left_bps[link]))
    limit_bps = min(state.flows[name]["rate_max_bps"], 10**12)
    program.row([(lane, 1.0) for lane in lanes], most=float(limit_bps))
    return -program.solve(5.0).objective


def check(calendar, capacities, shares_nothing):
    """Compares everybody's rate with the program; by name, the rate and the program's."""
    state, told = State(calendar), {}
    order = state.in_turn()
    rates = {x: state.flows[x]["rates_bps"] for x in order}
    for turn, name in enumerate(order):
        left_bps = dict(capacities)
        for place, other in enumerate(order):
            has_all = place < turn or state.stays(name, other)
            lanes_bps = rates[other] if has_all else state.owed[other]
            for path, bps in zip(state.paths[other], lanes_bps, strict=True):
                for link in path if other != name else ():
                    left_bps[link] -= bps
        # Where ways share links, one may have been given first that leads to less in all.
        at_least = state.owed[name] if shares_nothing else rates[name]
        told[name] = sum(rates[name]), most_bps(state, name, left_bps, at_least)
    return told


@pytest.mark.parametrize(("links_of", "seeds"), [(bare_ring, 6), (ring, 4)])
def test_between_epochs_everybody_sends_what_the_earliest_deadline_first_leaves(links_of, seeds):
    late = waited = 0
    for seed in range(1, seeds + 1):
        chance = random.Random(seed)
        links = links_of(chance)
        capacities = {x["name"]: x["capacity_bps"] for x in links["links"]}
        calendar = Calendar(json.dumps(links), "weir-all", Time(f"{EPOCH_S} s"), paths=3)
        sent, could, since_ns = defaultdict(int), defaultdict(float), 0
        for number in range(40):
            told = check(calendar, capacities, links_of is bare_ring)
            now_ns = since_ns + chance.randrange(1, 4 * S)
            for name, (bps, most) in told.items():
                sent[name] += bps * (now_ns - since_ns)
                could[name] += most * (now_ns - since_ns)
            if now_ns // (EPOCH_S * S) > since_ns // (EPOCH_S * S):
                assert sent.keys() == could.keys()
                for name, bits in sent.items():
                    assert bits == pytest.approx(could[name], rel=1e-6, abs=S * MBIT / 1000)
                sent.clear()
                could.clear()
            since_ns = now_ns
            now = Time.from_ns(now_ns)
            act(chance, calendar, links, now, number)
            calendar.epoch(now)
            state = State(calendar)
            late += any(state.is_late.values())
            rates = {x: sum(flow["rates_bps"]) for x, flow in state.flows.items()}
            waited += any(bps == 0 for bps in rates.values())
    assert late > 3 * seeds and waited > 3 * seeds, (late, waited)


def act(chance, calendar, links, now, number):
    """Somebody asks, ends, or reports, often that less has moved than was to."""
    kind = chance.choice(["ask", "ask", "report", "report", "end"])
    flows = calendar.flows()
    if kind == "ask" or not flows:
        source, destination = chance.sample(links["nodes"], 2)
        size = Bytes.from_count(1000 + int(chance.expovariate(1 / 2_000_000_000)))
        deadline = Time.from_ns(now.ns + int(chance.uniform(2.0, 60.0) * S))
        start = Time.from_ns(now.ns + chance.choice((0, 0, 5)) * S)
        paths = chance.choice((1, 2, 3))
        calendar.submit(
            now, str(number), source, destination, size, deadline, start=start, paths=paths
        )
    elif kind == "end":
        calendar.complete(now, chance.choice(flows).id)
    else:
        flow = chance.choice(flows)
        left = flow.remaining.count + (flow.size.count - flow.remaining.count) // chance.choice(
            (2, 4)
        )
        calendar.progress(now, flow.id, Bytes.from_count(left))
