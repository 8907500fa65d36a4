"""Places and quotas: nobody overwrites another's file, nobody holds more than a share."""

from dataclasses import fields, replace

import pytest
from calendar_lab import NETWORK
from hypothesis import given, settings
from hypothesis import strategies as st
from test_calendar_planner import GB, NET, START, S, asked, engine

from weir.calendar.clock import parse_instant
from weir.calendar.network import Quotas, parse_network
from weir.calendar.planning.claims import Claims
from weir.calendar.planning.planner import Planner
from weir.calendar.planning.reports import Report
from weir.calendar.problem import Problem
from weir.calendar.records import Transfer
from weir.errors import BadInput

MB = 10**6


def planner(**quotas):
    return Planner(engine(), [], margin_ns=0, quotas=Quotas(**quotas))


def to(identifier, path, host="dtn3", **more):
    return asked(identifier, MB, destination=host, destination_path=path, **more)


@pytest.mark.parametrize("second", ["inbox/run", "inbox/run/part", "inbox"])
@pytest.mark.parametrize("owner", ["me", "bob"])
def test_a_place_that_an_active_transfer_goes_to_is_taken(second, owner):
    plan = planner()
    plan.submit(START, to("a", "inbox/run"))
    refused = plan.submit(START, to("b", second, owner=owner, source_path="other"))
    assert isinstance(refused.answer, Problem)
    assert (refused.answer.status, refused.answer.kind) == (409, "place-taken")
    assert "dtn3:inbox" in refused.answer.detail
    assert [x.kind for x in refused.events] == ["refused"]
    # Beside it, or at another host, or once it is over, there is room.
    for identifier, path, host in (("c", "inbox/run2", "dtn3"), ("d", "inbox/run", "dtn4")):
        assert plan.submit(START, to(identifier, path, host)).admitted == identifier
    plan.report(START + S, "dtn1", [Report("a", "done", MB, MB)])
    assert plan.submit(START + S, to("b", "inbox/run", owner=owner)).admitted == "b"


def test_who_repeats_a_request_harms_nobody():
    plan = planner()
    plan.submit(START, to("a", "inbox/run"))
    assert plan.submit(START, to("b", "inbox/run")).admitted == "b"
    plan.cancel(START, "a")
    other = plan.submit(START, to("c", "inbox/run", owner="bob"))
    assert other.answer.kind == "place-taken"


def test_places_outlive_a_restart():
    plan = planner()
    plan.submit(START, to("a", "inbox/run"))
    again = Planner(engine(), plan.transfers.values(), margin_ns=0)
    assert again.submit(START, to("b", "inbox", source_path="z")).answer.kind == "place-taken"


names = st.lists(st.sampled_from(["a", "b", "a b", "a.b"]), min_size=1, max_size=3).map("/".join)
acts = st.lists(
    st.tuples(names, st.sampled_from(["me", "bob"]), st.sampled_from("xy"), st.booleans()),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(acts)
def test_no_two_active_transfers_of_different_requests_share_a_place(history):
    plan = planner()
    for number, (path, owner, source, ends) in enumerate(history):
        new = to(f"t{number}", path, owner=owner, source_path=source)
        clash = any(meets(new, x) for x in plan.transfers.values())
        answer = plan.submit(START, new).answer
        assert isinstance(answer, Problem) == clash
        if ends and plan.transfers:
            plan.cancel(START, next(iter(plan.transfers)))


def meets(one, other):
    """Whether one path is, or is below, the other: by their components, not by text."""
    parts = [x.destination_path.split("/") for x in (one, other)]
    shorter = min(len(x) for x in parts)
    if parts[0][:shorter] != parts[1][:shorter]:
        return False
    same = [(x.owner, x.source, x.source_path, x.destination_path) for x in (one, other)]
    return same[0] != same[1]


def test_a_quota_of_transfers_and_one_of_bytes_bind_each_submitter_alone():
    plan = planner(transfers=2, size_bytes=3 * MB)
    for identifier in ("a", "b"):
        assert plan.submit(START, to(identifier, identifier)).admitted
    full = plan.submit(START, to("c", "c")).answer
    assert (full.kind, "2 active transfers" in full.detail) == ("quota", True)
    assert plan.submit(START, to("d", "d", owner="bob")).admitted
    plan.cancel(START, "a")
    large = asked("e", 3 * MB, destination_path="e")
    assert plan.submit(START, large).answer.kind == "quota"
    assert plan.submit(START, to("f", "f")).admitted


def test_a_share_of_a_link_binds_and_comes_back():
    plan = planner(link_share=0.5)
    # 60 s at half of a Gbit/s are 3.75 GB.
    assert plan.submit(START, asked("a", 2 * GB, 60)).admitted
    before = dict(plan.rates)
    refused = plan.submit(START, asked("b", 2 * GB, 60, source="dtn2"))
    assert refused.answer.kind == "quota"
    assert refused.answer.extra["link"] == "core.forward"
    assert plan.engine.rates() == plan.rates
    assert before.keys() == plan.rates.keys()
    assert plan.submit(START, asked("c", 2 * GB, 60, source="dtn2", owner="bob")).admitted
    plan.cancel(START, "a")
    assert plan.submit(START, asked("b", 2 * GB, 60, source="dtn2")).admitted


def window(identifier, begin_s, end_s, size=2 * GB):
    return asked(identifier, size, end_s, start_ns=START + begin_s * S)


def test_what_is_sent_at_another_time_takes_nothing_of_a_share():
    """Each window takes 267 of the 500 Mbit/s that are the owner's; no two are at one time."""
    plan = Planner(engine("weir"), [], margin_ns=0, quotas=Quotas(link_share=0.5), plans_ahead=True)
    for night in range(7):
        begin_s = 60 + 86_400 * night
        assert plan.submit(START, window(f"n{night}", begin_s, begin_s + 60)).admitted
    for overlapping in (window("x", 90, 150), window("x", 0, 90_000, 3_000 * GB)):
        refused = plan.submit(START, overlapping).answer
        assert (refused.kind, refused.extra["link"]) == ("quota", "core.forward")
    offered_ns = parse_instant(refused.extra["earliest_deadline"])
    assert plan.submit(START, replace(overlapping, deadline_ns=offered_ns)).admitted
    plan.cancel(START, "n0")
    plan.cancel(START, "x")
    assert plan.submit(START, window("y", 90, 150)).admitted


def admitted(request):
    """The transfer that a request becomes, over the core."""
    nothing = ("started_ns", "finished_ns", "file_hash", "error")
    return Transfer(
        **{x.name: getattr(request, x.name) for x in fields(Transfer) if hasattr(request, x.name)},
        **dict.fromkeys(nothing),
        declared_bytes=request.size_bytes,
        submitted_ns=START,
        state="scheduled",
        bytes_durable=0,
        path=("core.forward",),
        planned=True,
        plan_ns=request.deadline_ns,
        risk="",
        missed=False,
    )


spans = st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(1, 4))


@settings(max_examples=300, deadline=None)
@given(st.lists(spans, max_size=8), spans, st.sampled_from([0, 5]))
def test_a_share_is_counted_instant_by_instant(held, wanted, now_s):
    """Against a look at each instant at which something begins; ten units are all of the link."""
    unit = 10**8 // 8

    def flow(identifier, begin_s, seconds, units):
        return window(identifier, begin_s, begin_s + seconds, unit * units * seconds)

    claims = Claims(Quotas(link_share=0.5), {"core.forward": 10**9}, [])
    for number, span in enumerate(held):
        claims.add(admitted(flow(f"h{number}", *span)))
    now_ns, paths = START + now_s * S, [("core.forward",)]
    new = flow("new", *wanted)

    def fits(deadline_ns, at_ns):
        begin_s, end_s = max(wanted[0], (at_ns - START) / S), (deadline_ns - START) / S
        need = new.size_bytes * 8 / 1e8 / (end_s - begin_s)
        looks = [begin_s, *(x for x, _, _ in held if begin_s <= x < end_s)]
        over = (at_ns - START) / S

        def at(look):
            return sum(u for b, n, u in held if b <= look and (look < b + n or b + n <= over))

        return max(map(at, looks)) + need <= 5 + 1e-9

    if new.deadline_ns > now_ns:
        refused = claims.share_refusal(new, paths, now_ns)
        assert (refused is None) == fits(new.deadline_ns, now_ns)
    least_ns = claims.share_deadline_ns(new, paths, now_ns)
    if least_ns is not None:
        assert fits(least_ns + 1_000_000, now_ns)
        assert claims.share_refusal(replace(new, deadline_ns=least_ns + 1), paths, now_ns) is None


@pytest.mark.parametrize("policy", ["local-ljf", "weir"])
@pytest.mark.parametrize("later_s", [0, 60])
@pytest.mark.parametrize("by_s", [60, 20])
def test_what_is_offered_beyond_a_share_of_a_link_is_within_it(policy, later_s, by_s):
    plan = Planner(
        engine(policy),
        [],
        margin_ns=0,
        quotas=Quotas(link_share=0.5),
        hold_ns=60 * S,
        plans_ahead=policy == "weir",
    )
    # Half of a Gbit/s less 267 Mbit/s are left; with a minute's notice all of it is for 2 GB.
    assert plan.submit(START, asked("a", 2 * GB, 60)).admitted
    wanted = asked("b", 2 * GB, by_s, source="dtn2")
    told = [plan.precheck(START, wanted).answer.refusal, plan.submit(START, wanted).answer]
    assert isinstance(told[1], Problem)
    offered_ns = parse_instant(told[1].extra["earliest_deadline"])
    least_s = later_s + 2 * GB * 8 / (5e8 - 2 * GB * 8 / 60)
    assert (offered_ns - START) / S >= least_s
    at_ns = START + later_s * S
    early = replace(wanted, deadline_ns=START + round((least_s - 1) * S))
    assert plan.precheck(at_ns, early).answer.refusal.kind == "quota"
    assert plan.submit(at_ns, replace(wanted, deadline_ns=offered_ns)).admitted == "b"


def test_quotas_stand_in_the_network_file():
    assert parse_network(NETWORK).quotas == NET.quotas == Quotas()
    table = {"transfers": 5, "size": "2 TB", "link_share": 0.25}
    assert parse_network(NETWORK | {"quotas": table}).quotas == Quotas(5, 2 * 10**12, 0.25)
    # They are not part of the network that the plan was made for.
    assert parse_network(NETWORK | {"quotas": table}).engine_json() == NET.engine_json()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([], "quotas must be a table"),
        ({"transfers": 0}, "transfers = 0"),
        ({"transfers": True}, "transfers = True"),
        ({"transfers": 1.5}, "transfers = 1.5"),
        ({"size": "5"}, "size"),
        ({"size": 5}, "size"),
        ({"link_share": 0}, "link_share = 0"),
        ({"link_share": 1.5}, "link_share = 1.5"),
        ({"link_share": "half"}, "link_share = 'half'"),
        ({"speed": 1}, '"speed"'),
    ],
)
def test_quotas_that_cannot_be_are_named(table, said):
    with pytest.raises(BadInput) as caught:
        parse_network(NETWORK | {"quotas": table})
    assert said in str(caught.value)
