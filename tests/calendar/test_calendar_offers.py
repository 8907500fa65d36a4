"""Offers that are held: whoever takes one in its time is admitted, and nobody is kept out long."""

from dataclasses import replace

import pytest
from calendar_lab import CalendarProcess, headers, request, wait_for
from hypothesis import given, settings
from hypothesis import strategies as st
from test_calendar_planner import GB, NET, START, S, asked, engine, perform, running, state, steps

from weir import Time
from weir._core import Calendar
from weir.calendar.clock import parse_instant
from weir.calendar.planning.engine import RecordedEngine
from weir.calendar.planning.planner import Planner
from weir.calendar.planning.reports import Report
from weir.calendar.planning.wire import WIRE_PER_FILE_BYTE
from weir.calendar.problem import Problem
from weir.calendar.rest.tokens import TokenFile

POLICIES = ["fixed", "local-ljf", "local-sjf", "global-ljf", "global-sjf"]
HOLD_S = 60


def planner(policy="local-ljf", **choices):
    """A calendar that holds its offers, with a link of which 6 GB take 836 Mbit/s of a gigabit."""
    plan = Planner(engine(policy), [], margin_ns=0, hold_ns=HOLD_S * S, **choices)
    plan.submit(START, asked("before", 6 * GB, 60))
    return plan


def refused(plan, at_s, **changes):
    """An offer to `owner`; the request that takes it."""
    values = {"identifier": "mine", "size_bytes": 3 * GB, "by_s": 60, "owner": "ana"}
    wanted = asked(**(values | {"source": "dtn2"} | changes))
    answer = plan.submit(START + at_s * S, wanted).answer
    assert isinstance(answer, Problem), answer
    return answer, replace(wanted, deadline_ns=parse_instant(answer.extra["earliest_deadline"]))


def another(identifier="theirs", by_s=600, **changes):
    return asked(identifier, GB, by_s, source="dtn2", owner="bob", **changes)


def test_the_links_are_told_without_the_room_that_the_offer_itself_holds():
    plan = Planner(engine(), [], margin_ns=0, hold_ns=HOLD_S * S)
    wanted = asked("mine", 3 * GB, 8, source="dtn2", owner="ana")
    for answer in (plan.submit(START, wanted).answer, plan.precheck(START, wanted).answer.refusal):
        # The whole gigabit is free, so it takes as long as its bytes.
        by_links = parse_instant(answer.extra["earliest_by_links"])
        assert (by_links - START) / S == pytest.approx(3 * WIRE_PER_FILE_BYTE * 8, rel=1e-3)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("later_s", [0, 1, 59, 60])
def test_nobody_takes_the_room_of_an_offer_before_its_owner(policy, later_s):
    plan = planner(policy)
    answer, taken = refused(plan, 0)
    assert answer.extra["offer_held_s"] == HOLD_S
    assert "the room is held for you for so long" in answer.hint
    theirs = plan.submit(START + later_s * S, another()).answer
    assert isinstance(theirs, Problem)
    assert "held for an offer to somebody else" in theirs.hint
    assert plan.submit(START + later_s * S, taken).admitted == "mine"


@pytest.mark.parametrize("size_bytes", [GB, GB + 1, GB + 7, 3 * GB])
def test_not_a_bit_of_an_offer_is_anybodys_until_its_last_millisecond(size_bytes):
    plan = Planner(engine(), [], margin_ns=0, hold_ns=HOLD_S * S)
    plan.submit(START, asked("before", 60 * GB, 600))
    refused(plan, 0, size_bytes=size_bytes, by_s=40)
    theirs = plan.submit(START + HOLD_S * S - S // 1000, another()).answer
    assert theirs.extra["available_bps"] == 0
    assert 'on link "core.forward", which can give 0 bit/s' in theirs.detail


@pytest.mark.parametrize("ticks", [False, True])
def test_after_its_time_the_room_is_anybodys(ticks):
    plan = planner()
    refused(plan, 0)
    if ticks:
        plan.tick(START + 61 * S)
        assert plan.engine.held() == []
    assert plan.submit(START + 61 * S, another()).admitted == "theirs"


def test_what_an_offer_held_is_shared_out_again():
    plan = planner()
    plan.submit(START, asked("slow", GB, 600, source="dtn2"))
    free_bps = 10**9 - plan.rates["before"]
    assert plan.rates["slow"] == free_bps
    refused(plan, 0)
    assert plan.rates["slow"] < 20_000_000
    plan.tick(START + 61 * S)
    assert plan.rates["slow"] > 100_000_000


def test_asking_for_something_else_frees_it():
    plan = planner()
    refused(plan, 0)
    assert plan.submit(START, asked("tiny", 1000, 600, owner="ana")).admitted == "tiny"
    assert plan.engine.held() == []
    assert plan.submit(START, another()).admitted == "theirs"


def test_the_last_offer_is_the_one_that_is_held_and_the_same_again_holds_the_same():
    plan = planner()
    _, first = refused(plan, 0)
    _, again = refused(plan, 30)
    assert len(plan.engine.held()) == 1
    # The answer to the second may be lost: what was offered first is good for its time.
    assert plan.submit(START + 60 * S, first).admitted == "mine"
    plan = planner()
    refused(plan, 0)
    _, last = refused(plan, 30)
    assert last == again
    assert plan.submit(START + 89 * S, last).admitted == "mine"


def test_who_only_asks_does_not_keep_the_network_from_others():
    plan = planner()
    held_s = 0
    for at_s in range(0, 3600, 30):
        answer, _ = refused(plan, at_s, size_bytes=100 * GB)
        held_s += 30 if answer.extra["offer_held_s"] else 0
        if not answer.extra["offer_held_s"]:
            assert "others may take the room" in answer.hint
    # Three minutes at first, and a tenth of the hour.
    assert held_s <= 3 * 60 + 360 + 60


def test_one_submitter_holds_one_offer_however_many_it_asks_for():
    plan = planner()
    for number in range(20):
        refused(plan, 0, identifier=f"n{number}")
        assert len(plan.engine.held()) <= 1


def test_an_offer_beyond_the_quota_is_not_held():
    # "me" holds 800 Mbit/s of files already, and the offer would be some 150 more.
    plan = planner(quotas=replace(NET.quotas, link_share=0.9))
    answer, _ = refused(plan, 0, owner="me")
    assert (answer.extra["offer_held_s"], plan.engine.held()) == (0, [])


def test_nothing_is_held_where_that_is_turned_off():
    plan = Planner(engine(), [], margin_ns=0, hold_ns=0)
    plan.submit(START, asked("before", 6 * GB, 60))
    before = dict(plan.rates)
    answer, _ = refused(plan, 0)
    assert (answer.extra["offer_held_s"], plan.engine.held(), plan.rates) == (0, [], before)


def test_a_shorter_hold_is_said():
    plan = Planner(engine(), [], margin_ns=0, hold_ns=20 * S)
    plan.submit(START, asked("before", 6 * GB, 60))
    answer, _ = refused(plan, 0)
    assert (answer.extra["offer_valid_s"], answer.extra["offer_held_s"]) == (60, 20)
    assert "for you for 20 s" in answer.hint


def test_a_promise_comes_before_an_offer():
    plan = planner()
    refused(plan, 0)
    # Five seconds late: the rest of its 6 GB takes half of what is held.
    behind = plan.report(START + 10 * S, "dtn1", [running("before", GB // 2)])
    assert plan.engine.held() == []
    assert plan.rates["before"] >= 5.5 * GB * 8.36 / 50 - 1
    assert plan.transfers["before"].risk == ""
    assert "at-risk" not in [x.kind for x in behind.events]


def test_who_comes_back_has_what_was_held_for_an_offer():
    plan = planner()
    plan.hosts_lost(START + S, ["dtn1"])
    plan.tick(START + 11 * S)
    assert not plan.transfers["before"].planned
    plan.report(START + 11 * S, "dtn1", [running("before", 2 * GB)])
    # Nobody would admit the offer's request but for the room that was given up.
    plan.submit(START + 12 * S, asked("other", GB // 4, 60, source="dtn2", owner="bob"))
    refused(plan, 12, size_bytes=100 * GB)
    plan.hosts_back(START + 13 * S, ["dtn1"])
    assert plan.engine.held() == []
    assert plan.transfers["before"].risk == ""


def test_an_offer_outlives_a_restart():
    plan = planner()
    first_state = Calendar(NET.engine_json(), "local-ljf", Time("5 s")).snapshot()
    recorded = []
    fresh = Planner(RecordedEngine(Calendar.restore(first_state)), [], margin_ns=0, hold_ns=60 * S)
    for wanted in (asked("before", 6 * GB, 60), replace(refused(plan, 0)[1], deadline_ns=START)):
        recorded += fresh.submit(START, wanted).steps
    again = RecordedEngine(Calendar.restore(first_state))
    again.replay(recorded)
    resumed = Planner(again, fresh.transfers.values(), margin_ns=0, hold_ns=60 * S)
    assert isinstance(resumed.submit(START + 50 * S, another()).answer, Problem)
    _, taken = refused(planner(), 0)
    assert resumed.submit(START + 59 * S, taken).admitted == "mine"
    assert state(again)["flows"]


asks = st.tuples(
    st.just("ask"),
    st.sampled_from(["ana", "bob", "eve"]),
    st.integers(1, 8 * GB),
    st.integers(2, 200),
)
moves = st.one_of(
    *[asks] * 3,
    st.tuples(st.just("take"), st.sampled_from(["ana", "bob", "eve"]), st.just(0), st.just(0)),
    st.tuples(st.just("grab"), st.just("max"), st.just(0), st.integers(2, 2_000)),
    st.tuples(st.just("wait"), st.just(""), st.integers(0, 40), st.just(0)),
    st.tuples(st.just("epoch"), st.just(""), st.just(0), st.just(0)),
    st.tuples(st.just("done"), st.just(""), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("cancel"), st.just(""), st.integers(0, 9), st.just(0)),
)


class History:
    """Submitters who ask, are refused and take what they were offered, or not."""

    def __init__(self, policy):
        self.plan = Planner(engine(policy), [], margin_ns=S, hold_ns=HOLD_S * S)
        self.now_ns = START
        self.offers = {}
        self.taken = 0

    def step(self, number, move):
        kind, owner, first, second = move
        some = sorted(self.plan.transfers)
        chosen = self.plan.transfers[some[first % len(some)]] if some else None
        if kind == "ask":
            ends = {"source": ("dtn1", "dtn2")[number % 2], "destination": "dtn4"}
            wanted = asked(f"t{number}", first, owner=owner, **ends)
            self.ask(replace(wanted, deadline_ns=self.now_ns + second * S))
        elif kind == "grab":
            self.grab(f"t{number}", self.now_ns + second * S)
        elif kind == "take" and owner in self.offers:
            wanted, until_ns = self.offers.pop(owner)
            answer = self.ask(wanted)
            if self.now_ns <= until_ns:
                assert answer.admitted == wanted.id, answer.answer
                self.taken += 1
        elif kind == "epoch":
            self.plan.epoch(self.now_ns)
        elif kind == "done" and chosen:
            done = Report(chosen.id, "done", chosen.size_bytes, chosen.size_bytes)
            self.plan.report(self.now_ns, chosen.source, [done])
        elif kind == "cancel" and chosen:
            self.plan.cancel(self.now_ns, chosen.id)
        elif kind == "wait":
            self.now_ns += first * S
            self.plan.tick(self.now_ns)
        self.check()

    def ask(self, wanted):
        self.offers.pop(wanted.owner, None)
        answer = self.plan.submit(self.now_ns, wanted)
        extra = answer.answer.extra if isinstance(answer.answer, Problem) else {}
        if extra.get("offer_held_s"):
            offered = replace(wanted, deadline_ns=parse_instant(extra["earliest_deadline"]))
            until_ns = self.now_ns + int(extra["offer_held_s"] * S)
            self.offers[wanted.owner] = (offered, until_ns)
        return answer

    def grab(self, identifier, deadline_ns):
        """Somebody takes all that anybody can be given on the shared link."""
        wanted = asked(identifier, 10**14, owner="max", destination="dtn4")
        wanted = replace(wanted, deadline_ns=deadline_ns)
        free_bps = self.ask(wanted).answer.extra["available_bps"] or 0
        bits = free_bps * (deadline_ns - S - self.now_ns) // S
        if (size_bytes := int(bits / 8 / WIRE_PER_FILE_BYTE) - 1) > 0:
            assert self.ask(replace(wanted, size_bytes=size_bytes)).admitted == identifier

    def check(self):
        for link in self.plan.engine._calendar.links():
            assert link.allotted <= link.capacity
        assert self.plan.engine.rates() == self.plan.rates
        assert all(x.plan_ns <= x.deadline_ns for x in self.plan.transfers.values())


@settings(max_examples=150, deadline=None)
@given(st.lists(moves, min_size=3, max_size=25), st.sampled_from(POLICIES))
def test_an_offer_that_is_taken_in_its_time_is_always_kept(history, policy):
    world = History(policy)
    for number, move in enumerate([("ask", "eve", 6 * GB, 60), *history]):
        world.step(number, move)
    for owner in list(world.offers):
        world.step(99, ("take", owner, 0, 0))


@settings(max_examples=80, deadline=None)
@given(steps, st.sampled_from(POLICIES))
def test_no_history_with_offers_is_lost_by_a_restart(history, policy):
    plan = Planner(engine(policy), [], margin_ns=S, hold_ns=HOLD_S * S)
    first_state, recorded, now_ns = plan.engine.snapshot(), [], START
    for number, step in enumerate(history):
        now_ns += S + (step[1] * S if step[0] == "tick" else 0)
        recorded += perform(plan, now_ns, number, step).steps
        assert plan.engine.rates() == plan.rates
    again = RecordedEngine(Calendar.restore(first_state))
    again.replay(recorded)
    assert state(again) == state(plan.engine)
    assert again.held() == plan.engine.held()


# --- a running service ---


@pytest.fixture
def served(tmp_path):
    """A calendar in a process of its own, and what submits to it under a name."""
    process = CalendarProcess(tmp_path, options=["--policy", "local-ljf", "--hold", "30 s"])
    file = TokenFile(process.tokens)
    tokens = {name: file.create(name, "submit") for name in ("ana", "bob")}
    tokens["eve"] = file.create("eve", "read")
    process.names = {name: headers(token) for name, token in tokens.items()}
    yield process.start()
    process.stop()


def ask(served, name, path, **changes):
    with served.client() as client:
        http = client._http
        body = request(source="dtn2", destination_path=path, **changes)
        return http.post(f"{served.url}/v1/transfers", json=body, headers=served.names[name])


def test_an_offer_is_kept_by_a_service_that_is_killed_in_between(served):
    assert ask(served, "bob", "first", size_bytes=6 * GB).status_code == 201
    assert ask(served, "eve", "no-right").status_code == 403
    wanted = {"path": "mine", "size_bytes": 3 * GB}
    offer = ask(served, "ana", **wanted).json()
    assert offer["offer_held_s"] == 30
    assert parse_instant(offer["earliest_by_links"]) < parse_instant(offer["earliest_deadline"])
    assert ask(served, "bob", "theirs", deadline_s=600.0).status_code == 409
    served.kill()
    served.start()
    assert ask(served, "bob", "theirs", deadline_s=600.0).status_code == 409
    taken = ask(served, "ana", deadline=offer["earliest_deadline"], deadline_s=None, **wanted)
    assert taken.status_code == 201, taken.text


def test_an_offer_that_nobody_takes_ends_by_itself(tmp_path):
    process = CalendarProcess(tmp_path, options=["--hold", "1 s"])
    file = TokenFile(process.tokens)
    process.names = {name: headers(file.create(name, "submit")) for name in ("ana", "bob")}
    try:
        process.start()
        assert ask(process, "bob", "first", size_bytes=6 * GB).status_code == 201
        assert ask(process, "ana", "mine", size_bytes=3 * GB).status_code == 409
        wait_for(lambda: ask(process, "bob", "next", deadline_s=600.0).status_code == 201)
    finally:
        process.stop()


# --- with a policy that plans ahead ---


def ahead(policy="weir-all"):
    """A calendar with a link that is promised to its last bit for the next minute."""
    plan = Planner(engine(policy), [], margin_ns=0, hold_ns=HOLD_S * S, plans_ahead=True)
    plan.submit(START, asked("before", int(7.4 * GB / WIRE_PER_FILE_BYTE), 60))
    return plan


@pytest.mark.parametrize("policy", ["weir", "weir-all"])
@pytest.mark.parametrize("later_s", [0, 1, 59, 60])
def test_room_that_lies_later_is_held_too(policy, later_s):
    plan = ahead(policy)
    answer, taken = refused(plan, 0)
    assert answer.extra["offer_held_s"] == HOLD_S
    # From the offer's end on it takes 25 s, whatever is free before.
    assert (taken.deadline_ns - START) / S == pytest.approx(60 + 3 * WIRE_PER_FILE_BYTE * 8, 0.02)
    assert plan.rates["before"] == 10**9
    theirs = replace(another(), size_bytes=3 * GB, deadline_ns=taken.deadline_ns)
    assert isinstance(plan.submit(START + later_s * S, theirs).answer, Problem)
    assert plan.submit(START + later_s * S, taken).admitted == "mine"
    assert "offer/ana" not in [x[0] for x in plan.engine.held()]


def test_two_offers_of_two_submitters_are_of_different_room():
    plan = ahead()
    _, mine = refused(plan, 0)
    _, theirs = refused(plan, 0, identifier="theirs", owner="bob")
    assert theirs.deadline_ns >= mine.deadline_ns + 25 * S
    assert plan.submit(START + 50 * S, theirs).admitted == "theirs"
    assert plan.submit(START + 60 * S, mine).admitted == "mine"
    plan.tick(START + 61 * S)
    assert not any(x.risk for x in plan.transfers.values() if x.id != "before")


@pytest.mark.parametrize("ticks", [False, True])
def test_an_offer_ahead_that_lapses_gives_its_room_back(ticks):
    plan = ahead()
    _, mine = refused(plan, 0)
    if ticks:
        plan.tick(START + 61 * S)
        assert plan.engine.held() == []
    theirs = replace(another(), size_bytes=3 * GB, deadline_ns=mine.deadline_ns + 2 * S)
    assert plan.submit(START + 61 * S, theirs).admitted == "theirs"


def test_asking_for_less_takes_an_offer_ahead_and_asking_for_more_gives_it_up():
    plan = ahead()
    _, mine = refused(plan, 0)
    less = replace(mine, size_bytes=mine.size_bytes // 2, deadline_ns=mine.deadline_ns + S)
    assert plan.submit(START + S, less).admitted == "mine"
    plan = ahead()
    _, mine = refused(plan, 0)
    more = replace(mine, size_bytes=2 * mine.size_bytes)
    assert isinstance(plan.submit(START + S, more).answer, Problem)
    # What is held now is for that.
    assert plan.engine.held()[0][-1] > mine.deadline_ns + 20 * S


def test_a_restart_knows_what_is_held_ahead_and_until_when():
    plan = ahead()
    snapshot, first = plan.engine.snapshot(), plan.engine.last_step
    made = plan.submit(START + S, asked("mine", 3 * GB, 60, source="dtn2", owner="ana"))
    again = RecordedEngine(Calendar.restore(snapshot), first)
    again.replay(made.steps)
    assert again.held() == plan.engine.held()
    other = Planner(
        again,
        plan.transfers.values(),
        margin_ns=0,
        hold_ns=HOLD_S * S,
        plans_ahead=True,
    )
    assert other.tick(START + 61 * S) and len(again.held()) == 1
    other.tick(START + 62 * S)
    assert again.held() == []


# --- of what starts later itself ---

# Before the offer ends, and after it; what is asked for takes 250 s.
STARTS_S = (30, 100)


def refused_later(plan, start_s, at_s=0, owner="ana", **changes):
    """An offer to `owner` for what starts so many seconds from START, and what takes it."""
    wanted = asked(
        f"{owner}s",
        30 * GB,
        200,
        source="dtn2",
        owner=owner,
        start_ns=START + start_s * S,
        **changes,
    )
    answer = plan.submit(START + at_s * S, wanted).answer
    assert isinstance(answer, Problem), answer
    return answer, replace(wanted, deadline_ns=parse_instant(answer.extra["earliest_deadline"]))


@pytest.mark.parametrize("policy", ["weir", "weir-all"])
@pytest.mark.parametrize("start_s", STARTS_S)
@pytest.mark.parametrize("later_s", [0, 59, 60])
def test_room_for_a_later_start_is_held(policy, start_s, later_s):
    plan = ahead(policy)
    answer, taken = refused_later(plan, start_s)
    assert answer.extra["offer_held_s"] == HOLD_S
    assert "the room is held for you for so long" in answer.hint
    # Both from when the offer ends and from its start on the link carries nothing else.
    first_s = max(start_s, HOLD_S)
    took_s = 30 * WIRE_PER_FILE_BYTE * 8
    assert (taken.deadline_ns - START) / S == pytest.approx(first_s + took_s, abs=5)
    # Whoever wants as much by then and would have to have what is held is refused.
    theirs = replace(
        another(), size_bytes=30 * GB, start_ns=taken.start_ns, deadline_ns=taken.deadline_ns
    )
    assert isinstance(plan.submit(START + later_s * S, theirs).answer, Problem)
    made = plan.submit(START + later_s * S, taken)
    assert made.admitted == "anas", made.answer
    # Where the offer outlasted the start, it begins at once.
    assert made.answer.start_ns == taken.start_ns
    # What is held now is what the other one was offered.
    assert not any(x[0].startswith("offer/ana") for x in plan.engine.held())


@pytest.mark.parametrize("start_s", STARTS_S)
def test_an_offer_for_a_later_start_lapses_with_its_time_and_not_with_its_start(start_s):
    plan = ahead()
    _, taken = refused_later(plan, start_s)
    theirs = replace(
        another(), size_bytes=30 * GB, start_ns=taken.start_ns, deadline_ns=taken.deadline_ns + S
    )
    plan.tick(START + HOLD_S * S)
    assert len(plan.engine.held()) == 1
    plan.tick(START + (HOLD_S + 1) * S)
    assert plan.engine.held() == []
    made = plan.submit(START + (HOLD_S + 1) * S, theirs)
    assert made.admitted == "theirs", made.answer


@pytest.mark.parametrize("start_s", STARTS_S)
def test_a_restart_knows_until_when_a_later_start_is_held(start_s):
    plan = ahead()
    snapshot, first = plan.engine.snapshot(), plan.engine.last_step
    wanted = asked("anas", 30 * GB, 200, source="dtn2", owner="ana", start_ns=START + start_s * S)
    made = plan.submit(START + S, wanted)
    again = RecordedEngine(Calendar.restore(snapshot), first)
    again.replay(made.steps)
    assert again.held() == plan.engine.held()
    more = {"margin_ns": 0, "hold_ns": HOLD_S * S, "plans_ahead": True}
    other = Planner(again, plan.transfers.values(), **more)
    assert other._offers.of("ana") == plan._offers.of("ana")
    assert other._offers.of("ana").until_ns == START + (HOLD_S + 1) * S
    taken = replace(wanted, deadline_ns=parse_instant(made.answer.extra["earliest_deadline"]))
    assert other.submit(START + 61 * S, taken).admitted == "anas"


def test_a_transfer_that_is_taken_up_later_starts_when_it_was_to():
    plan = ahead()
    _, taken = refused_later(plan, 100)
    plan.submit(START + 10 * S, taken)
    assert (plan.transfers["anas"].state, plan.rates["anas"]) == ("scheduled", 0)
    plan.tick(START + 60 * S)
    assert plan.rates["anas"] == 0
    plan.tick(START + 100 * S)
    assert plan.transfers["anas"].state == "accepted"
    assert plan.rates["anas"] > 0
