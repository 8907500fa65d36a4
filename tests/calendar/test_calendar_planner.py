"""The calendar without clock, disk or network: every instant here is an argument."""

import json
from dataclasses import replace

import pytest
from calendar_lab import NETWORK
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from weir import Time
from weir._core import Calendar
from weir.calendar.clock import parse_instant
from weir.calendar.network import parse_network
from weir.calendar.planning.engine import RecordedEngine, Wanted
from weir.calendar.planning.planner import Planner
from weir.calendar.planning.refusal import reason
from weir.calendar.planning.reports import Report
from weir.calendar.planning.wire import WIRE_PER_FILE_BYTE, wire_bytes
from weir.calendar.problem import Problem
from weir.calendar.records import Submission

S = 10**9
GB = 10**9
START = 1_700_000_000 * S
NET = parse_network(NETWORK)
ENDS = ("dtn1", "dtn3")


def engine(policy="local-ljf"):
    return RecordedEngine(Calendar(NET.engine_json(), policy, Time("5 s")))


def planner(policy="local-ljf", margin_s=0):
    return Planner(engine(policy), [], margin_ns=margin_s * S)


def asked(identifier="a", size_bytes=GB, by_s=60, **changes):
    values = {
        "id": identifier,
        "owner": "me",
        "idempotency_key": None,
        "fingerprint": "",
        "source": "dtn1",
        "source_path": "x",
        "destination": "dtn3",
        "destination_path": f"to/{identifier}",
        "size_bytes": size_bytes,
        "deadline_ns": START + by_s * S,
        "rate_max_bps": None,
    }
    return Submission(**(values | changes))


def running(identifier, bytes_durable, total=0):
    return Report(identifier, "running", bytes_durable, total)


def kinds(outcome):
    return [event.kind for event in outcome.events]


def test_a_lone_transfer_gets_what_ends_it_and_a_second_slows_it_to_its_minimum():
    plan = planner()
    first = plan.submit(START, asked("a", 6 * GB, 60))
    assert first.rates == {"a": 10**9}
    second = plan.submit(START, asked("b", GB, 60))
    # 6 GB of content are 6.27 GB of packets, which 60 s carry at 836 Mbit/s.
    minimum_bps = 6e9 * WIRE_PER_FILE_BYTE * 8 / 60
    assert second.rates["a"] == pytest.approx(minimum_bps, rel=1e-6)
    assert second.rates["b"] == pytest.approx(1e9 - minimum_bps, rel=1e-6)
    assert kinds(second) == ["admitted", "rates"]


def test_a_link_that_can_give_nothing_is_the_reason_and_not_the_deadline():
    full = engine("fixed")
    # A second of all that the core carries.
    assert full.submit(START, "whole", Wanted(ENDS, 125_000_000, START + S)).accepted
    refused = full.submit(START, "b", Wanted(ENDS, 1_000, START + 86_400 * S))
    assert (refused.accepted, refused.available_bps) == (False, 0)
    assert 'link "core.forward", which can give 0 bit/s' in reason(refused)


def test_the_margin_is_kept_in_hand():
    plan = planner(margin_s=2)
    plan.submit(START, asked("a", GB, 60))
    plan.submit(START, asked("b", 5 * GB, 60))
    # 1 GB in 58 s instead of 60.
    assert plan.rates["a"] == pytest.approx(1e9 * WIRE_PER_FILE_BYTE * 8 / 58, rel=1e-6)


def reported(plan, identifier, lag_s, seconds):
    """The rates that each second's report changes, of a flow that keeps its own but for a lag."""
    changes = []
    source = plan.transfers[identifier].source
    rate_bps = plan.rates[identifier]
    for second in range(1, seconds + 1):
        sent = rate_bps / 8 / WIRE_PER_FILE_BYTE * max(0, second - lag_s)
        whole_chunks = int(sent) // 2**20 * 2**20
        report = running(identifier, whole_chunks)
        changes.append(plan.report(START + second * S, source, [report]).rates)
    return changes


def two_flows(margin_s):
    plan = planner(margin_s=margin_s)
    plan.submit(START, asked("a", GB, 60))
    plan.submit(START, asked("b", 6 * GB, 600, source="dtn2"))
    assert plan.rates["a"] == pytest.approx(GB * WIRE_PER_FILE_BYTE * 8 / (60 - margin_s), rel=1e-6)
    return plan


def test_a_flow_that_keeps_its_rate_is_left_at_it_however_late_its_reports():
    plan = two_flows(margin_s=1)
    before = dict(plan.rates)
    # Whole chunks, up to 60 ms, behind a start-up of 400 ms: less than half the margin.
    assert reported(plan, "a", lag_s=0.4, seconds=58) == [{}] * 58
    assert plan.rates == before
    assert plan.transfers["a"].risk == ""


def test_a_flow_that_falls_behind_by_more_is_given_what_it_needs():
    plan = two_flows(margin_s=1)
    changes = reported(plan, "a", lag_s=0.7, seconds=3)
    assert changes[0].keys() == {"a", "b"}
    remaining_bits = wire_bytes(plan.transfers["a"].remaining_bytes) * 8
    assert plan.rates["a"] * (60 - 1 - 3) >= remaining_bits
    assert sum(plan.rates.values()) <= 10**9


def test_who_is_reported_seldom_is_not_at_risk_for_what_was_not_said_since():
    plan = two_flows(margin_s=1)
    reported(plan, "a", lag_s=0.4, seconds=3)
    assert kinds(plan.epoch(START + 30 * S)) == []
    # Everybody is looked at.
    assert kinds(plan.hosts_lost(START + 31 * S, ["elsewhere"])) == ["agent-lost"]
    assert plan.transfers["a"].risk == ""


def test_who_was_behind_when_last_reported_stays_at_risk():
    plan = planner(margin_s=1)
    plan.submit(START, asked("a", GB, 60, rate_max_bps=150_000_000))
    plan.report(START + 30 * S, "dtn1", [running("a", 1_000)])
    assert "behind" in plan.transfers["a"].risk
    assert "recovered" not in kinds(plan.epoch(START + 40 * S))
    assert "behind" in plan.transfers["a"].risk


def test_without_a_margin_nothing_is_let_pass():
    plan = two_flows(margin_s=0)
    assert "a" in reported(plan, "a", lag_s=0.1, seconds=1)[0]


@pytest.mark.parametrize("later_s", [0, 1, 30, 60])
def test_a_refusal_changes_nothing_and_its_deadline_is_accepted_a_minute_later(later_s):
    plan = planner()
    plan.submit(START, asked("a", 60 * GB, 600))
    before = dict(plan.rates)
    refused = plan.submit(START, asked("b", 3 * GB, 60))
    assert isinstance(refused.answer, Problem)
    assert refused.answer.extra["link"] == "core.forward"
    assert (plan.rates, refused.steps, refused.transfers) == (before, [], {})
    earliest = parse_instant(refused.answer.extra["earliest_deadline"])
    assert refused.answer.extra["offer_valid_s"] == 60
    wanted = replace(asked("b", 3 * GB), deadline_ns=earliest)
    assert plan.submit(START + later_s * S, wanted).admitted == "b"


def test_where_no_deadline_would_be_accepted_it_says_when_to_ask_again():
    plan = planner()
    # 60 s at a Gbit/s are 7.5 GB of packets: what is left of the link are a few bit/s at most.
    whole = int(7_500_000_000 / WIRE_PER_FILE_BYTE)
    plan.submit(START, asked("a", whole, 60))
    wanted = asked("b", GB, 60, source="dtn2")
    refusal = plan.submit(START + S, wanted).answer
    assert refusal.extra["earliest_deadline"] is None
    assert refusal.extra["link"] == "core.forward"
    when = refusal.hint.split("about ")[1].split(": ")[0]
    assert parse_instant(when) == pytest.approx(START + 60 * S, abs=S)
    plan.report(START + 60 * S, "dtn1", [Report("a", "done", whole, whole)])
    later = replace(wanted, deadline_ns=START + 120 * S)
    assert plan.submit(START + 60 * S, later).admitted == "b"


def test_a_transfer_that_waits_for_its_report_does_not_block_others():
    plan = planner()
    # By the model it is over after a second; its agent has not said anything yet.
    plan.submit(START, asked("small", 100_000_000, 3_600))
    other = plan.submit(START + 30 * S, asked("big", 6 * GB, 90))
    assert other.admitted == "big"
    # What is known is that nothing of it has moved, so it keeps what that takes.
    assert plan.rates["small"] >= 100_000_000 * 8 / 3_600


def test_a_lost_agent_keeps_its_capacity_until_its_deadline_is_impossible():
    plan = planner()
    plan.submit(START, asked("a", 5 * GB, 60))
    plan.report(START + S, "dtn1", [running("a", GB)])
    lost = plan.hosts_lost(START + 5 * S, ["dtn1"])
    assert kinds(lost) == ["agent-lost", "at-risk"]
    assert "dtn1" in lost.transfers["a"].risk
    # 4 GB are 33.4 s at a Gbit/s: at 26 s there is time yet, at 27 s there is none.
    assert plan.tick(START + 26 * S).transfers == {}
    assert plan.rates["a"] == 10**9
    dropped = plan.tick(START + 27 * S)
    assert dropped.transfers["a"].planned is False
    assert "a" not in plan.rates
    assert plan.submit(START + 27 * S, asked("b", 3 * GB, 60)).admitted == "b"


def test_an_agent_that_returns_in_time_is_on_time_again():
    plan = planner()
    plan.submit(START, asked("a", 2 * GB, 60))
    plan.submit(START, asked("b", GB, 60, source="dtn2"))
    plan.hosts_lost(START + 5 * S, ["dtn1"])
    back = plan.hosts_back(START + 30 * S, ["dtn1"])
    # It has slept, so it needs more than before, and the other gives up its slack for it.
    assert plan.rates["a"] >= 2e9 * WIRE_PER_FILE_BYTE * 8 / 30
    assert sum(plan.rates.values()) <= 10**9
    assert kinds(back) == ["agent-back", "rates", "recovered"]


def test_an_agent_that_returns_too_late_is_planned_for_the_earliest_time_left():
    plan = planner()
    plan.submit(START, asked("a", 5 * GB, 60))
    plan.hosts_lost(START + 5 * S, ["dtn1"])
    plan.tick(START + 40 * S)
    plan.submit(START + 40 * S, asked("b", 2 * GB, 120, source="dtn2"))
    back = plan.hosts_back(START + 41 * S, ["dtn1"])
    again = back.transfers["a"]
    assert again.planned
    assert again.plan_ns > again.deadline_ns
    assert "planned for" in again.risk
    assert plan.rates["a"] > 0
    # The other's deadline is not paid for it.
    # It has sent its 2 GB for a second at a Gbit/s, and has 79 s for the rest.
    needed_bps = (2e9 * WIRE_PER_FILE_BYTE * 8 - 1e9) / 79
    assert plan.rates["b"] == pytest.approx(needed_bps, rel=1e-6)


def test_a_deadline_that_passes_is_missed_once_and_the_transfer_goes_on():
    plan = planner()
    plan.submit(START, asked("a", GB, 10))
    assert kinds(plan.tick(START + 10 * S)) == []
    assert kinds(plan.tick(START + 11 * S)) == ["missed"]
    assert kinds(plan.tick(START + 12 * S)) == []
    assert plan.rates["a"] > 0
    done = plan.report(START + 13 * S, "dtn1", [Report("a", "done", GB, GB)])
    assert [x.data.get("on_time") for x in done.events] == [False]


def test_an_end_that_was_in_time_is_on_time_even_when_told_late():
    plan = planner()
    plan.submit(START, asked("a", GB, 10))
    plan.tick(START + 11 * S)
    told = Report("a", "done", GB, GB, finished_ago_ns=3 * S)
    done = plan.report(START + 12 * S, "dtn1", [told])
    assert done.transfers["a"].finished_ns == START + 9 * S
    assert done.transfers["a"].missed is False
    assert done.events[-1].data["on_time"] is True


def test_a_report_of_another_hosts_transfer_is_told_to_stop():
    plan = planner()
    plan.submit(START, asked("a"))
    outcome = plan.report(START, "dtn2", [running("a", 5), running("unknown", 5)])
    assert outcome.answer == ["a", "unknown"]
    assert outcome.transfers == {}


def test_an_agent_that_does_not_know_yet_takes_nothing_back():
    plan = planner()
    plan.submit(START, asked("a"))
    plan.report(START, "dtn1", [running("a", 500)])
    outcome = plan.report(START + S, "dtn1", [Report("a", "waiting", None, 0)])
    assert plan.transfers["a"].bytes_durable == 500
    assert outcome.answer == []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, 5 * GB), st.integers(1, 200)),
        st.tuples(st.just("report"), st.integers(0, 9), st.integers(0, GB)),
        st.tuples(st.just("done"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("cancel"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("lost"), st.sampled_from(["dtn1", "dtn2", "dtn3"]), st.just(0)),
        st.tuples(st.just("back"), st.sampled_from(["dtn1", "dtn2", "dtn3"]), st.just(0)),
        st.tuples(st.just("tick"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("epoch"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


def perform(plan, now_ns, number, step):
    """One step of a random history; every outcome is what the store would be given."""
    kind, first, second = step
    some = sorted(plan.transfers)
    chosen = plan.transfers[some[first % len(some)]] if isinstance(first, int) and some else None
    match kind:
        case "submit":
            source = ("dtn1", "dtn2")[number % 2]
            new = asked(f"t{number:03}", first, 0, source=source)
            return plan.submit(now_ns, replace(new, deadline_ns=now_ns + second * S))
        case "report" if chosen:
            durable = min(chosen.size_bytes, chosen.bytes_durable + second)
            return plan.report(now_ns, chosen.source, [running(chosen.id, durable)])
        case "done" if chosen:
            done = Report(chosen.id, "done", chosen.size_bytes, chosen.size_bytes)
            return plan.report(now_ns, chosen.source, [done])
        case "cancel" if chosen:
            return plan.cancel(now_ns, chosen.id)
        case "lost":
            return plan.hosts_lost(now_ns, [first])
        case "back":
            return plan.hosts_back(now_ns, [first])
        case "epoch":
            return plan.epoch(now_ns)
    return plan.tick(now_ns)


def state(engine):
    """All that decides what comes next; the time of a call that changed nothing does not."""
    return json.loads(engine.snapshot()) | {"clock_ns": None}


@hypothesis_settings(max_examples=150, deadline=None)
@given(steps, st.sampled_from(["fixed", "local-ljf", "global-sjf"]))
def test_no_history_overfills_a_link_or_is_lost_by_a_restart(history, policy):
    plan = planner(policy, margin_s=1)
    first_state, recorded, stored = plan.engine.snapshot(), [], {}
    now_ns = START
    for number, step in enumerate(history):
        now_ns += S + (step[1] * S if step[0] == "tick" else 0)
        outcome = perform(plan, now_ns, number, step)
        recorded += outcome.steps
        stored |= outcome.transfers
        for name, link in NET.links.items():
            crossing = [x for x in plan.transfers.values() if x.planned and name in x.path]
            assert sum(plan.rates[x.id] for x in crossing) <= link.capacity_bps
        # What the rest of the service believes is what the engine holds.
        assert plan.engine.rates() == plan.rates
    # A restart from what the store was given leads to the very same plan.
    again = RecordedEngine(Calendar.restore(first_state))
    again.replay(recorded)
    assert again.rates() == plan.engine.rates()
    assert state(again) == state(plan.engine)
    active = {x.id: x for x in stored.values() if x.active}
    assert active == plan.transfers


def test_planning_anew_keeps_every_deadline_that_was_kept_before():
    plan = planner()
    for number in range(8):
        plan.submit(START, asked(f"t{number}", GB, 70 + number))
    fresh = Planner(engine(), plan.transfers.values(), margin_ns=0)
    outcome = fresh.readmit(START)
    assert outcome.transfers.keys() == plan.transfers.keys()
    for transfer in outcome.transfers.values():
        left_s = (transfer.deadline_ns - START) / S
        assert fresh.rates[transfer.id] * left_s / 8 >= wire_bytes(GB) * 0.999_999
        assert transfer.risk == ""
