"""The calendar through the Python door: the paced pair of 000-spec Fig. 1.4, and bad input."""

import json

import pytest

from weir import Bytes, Rate, Time
from weir._core import Calendar, g_scale
from weir.errors import BadInput

EPOCH = Time("3 min")


def one_link(capacity_bps=500_000_000):
    link = {"name": "wan", "from": "a", "to": "b", "capacity_bps": capacity_bps}
    return json.dumps({"nodes": ["a", "b"], "links": [link]})


def submit(calendar, now, name, size, deadline, **more):
    return calendar.submit(Time(now), name, "a", "b", Bytes(size), Time(deadline), **more)


def test_a_critical_transfer_slows_a_patient_one_down_to_what_it_needs():
    calendar = Calendar(one_link(), "local-ljf", EPOCH)
    patient = submit(calendar, "0 s", "patient", "10 GB", "800 s")
    assert patient.accepted and patient.rate == Rate("500 Mbit/s") and patient.path == ["wan"]
    critical = submit(calendar, "0 s", "critical", "5 GB", "120 s")
    assert critical.accepted
    assert critical.changes == [("patient", Rate("100 Mbit/s"))]
    assert critical.rate == Rate("400 Mbit/s")
    calendar.complete(Time("100 s"), "critical")
    assert calendar.epoch(Time("180 s")) == [("patient", Rate("500 Mbit/s"))]
    assert [flow.id for flow in calendar.flows()] == ["patient"]


def test_a_refusal_names_the_link_and_the_earliest_deadline():
    calendar = Calendar(one_link(), "fixed", EPOCH)
    assert submit(calendar, "0 s", "first", "5 GB", "100 s").accepted
    refused = submit(calendar, "0 s", "second", "5 GB", "100 s")
    assert not refused.accepted and refused.rate is None
    assert refused.reason.kind == "link" and refused.reason.link == "wan"
    assert refused.reason.needed == Rate("400 Mbit/s")
    assert refused.reason.available == Rate("100 Mbit/s")
    assert refused.earliest_deadline == Time("400 s")
    assert submit(calendar, "0 s", "third", "5 GB", "400 s").accepted


def test_weirs_policy_books_ahead_promises_parts_and_says_beforehand():
    calendar = Calendar(one_link(), "weir-all", EPOCH)
    ahead = submit(calendar, "0 s", "ahead", "5 GB", "200 s", start=Time("100 s"))
    assert ahead.accepted and ahead.rate == Rate("0 bit/s") and ahead.size == Bytes("5 GB")
    # A hundred seconds until then, and twenty after it that it need not have.
    asked = ("0 s", "now", "10 GB", "200 s")
    refused = calendar.precheck(
        Time("0 s"), "now", "a", "b", Bytes("10 GB"), Time("200 s"), least=Bytes("7.6 GB")
    )
    assert not refused.accepted and refused.size is None
    said = submit(Calendar.restore(calendar.snapshot()), *asked, least=Bytes("7 GB"))
    told = submit(calendar, *asked, least=Bytes("7 GB"))
    assert told.accepted and told.size == said.size
    assert Bytes("7.4 GB").count < told.size.count <= Bytes("7.5 GB").count
    assert told.rate == Rate("500 Mbit/s") and told.path == ["wan"]
    assert calendar.next_epoch == Time("100 s"), "when the other may start"
    with pytest.raises(BadInput, match="starts later"):
        submit(Calendar(one_link(), "fixed", EPOCH), *asked, start=Time("1 s"))
    with pytest.raises(BadInput, match='"fixed" sends over one path'):
        Calendar(one_link(), "fixed", EPOCH, paths=2)


def test_what_is_behind_is_told_the_earliest_time_left():
    for policy in ("weir", "local-ljf"):
        calendar = Calendar(one_link(), policy, EPOCH)
        submit(calendar, "0 s", "slow", "5 GB", "100 s")
        assert calendar.behind(["slow", "nobody"]) == []
        calendar.progress(Time("50 s"), "slow", Bytes("5 GB"))
        assert calendar.behind(["nobody", "slow"]) == ["slow"]
        (flow,) = calendar.flows()
        assert flow.state == "at_risk" and flow.split in ([], [(["wan"], Rate("500 Mbit/s"))])
        assert calendar.earliest_end("slow") == Time("130 s")


@pytest.mark.parametrize("policy", ["weir", "local-ljf"])
def test_several_reports_are_taken_as_one_after_the_other(policy):
    first = Calendar(one_link(), policy, EPOCH)
    for name, deadline in (("a", "400 s"), ("b", "300 s"), ("c", "200 s")):
        assert submit(first, "0 s", name, "4 GB", deadline).accepted
    again = Calendar.restore(first.snapshot())
    left = [("a", Bytes("3.9 GB")), ("b", Bytes("3.8 GB")), ("c", Bytes("2.9 GB"))]
    told = first.progress_all(Time("50 s"), left)
    assert told == [x for one in left for x in again.progress(Time("50 s"), *one)]
    assert first.snapshot() == again.snapshot()
    with pytest.raises(BadInput, match="nobody"):
        first.progress_all(Time("51 s"), [("a", Bytes("1 GB")), ("nobody", Bytes("1 GB"))])


def test_a_link_carries_what_its_timetable_says():
    calendar = Calendar(one_link(), "weir", EPOCH)
    night = (Time("100 s"), Time("200 s"), Rate("500 Mbit/s"))
    assert calendar.set_capacity(Time("0 s"), "wan", [night], Rate("50 Mbit/s")) == []
    refused = calendar.precheck(Time("0 s"), "x", "a", "b", Bytes("5 GB"), Time("150 s"))
    # 6.25 MB/s for 100 s, then 62.5 MB/s.
    assert refused.earliest_deadline == Time("170 s")
    assert submit(calendar, "0 s", "x", "5 GB", "170 s").rate == Rate("50 Mbit/s")
    (link,) = calendar.links()
    assert (link.capacity, link.allotted) == (Rate("50 Mbit/s"), Rate("50 Mbit/s"))
    assert calendar.next_epoch == Time("100 s")
    assert calendar.epoch(Time("100 s")) == [("x", Rate("500 Mbit/s"))]
    again = Calendar.restore(calendar.snapshot())
    for each in (calendar, again):
        assert each.set_capacity(Time("110 s"), "wan", [], Rate("0 bit/s")) == [
            ("x", Rate("0 bit/s"))
        ]
        assert each.flows()[0].state == "at_risk" and each.earliest_end("x") is None
    with pytest.raises(BadInput, match="overlap"):
        calendar.set_capacity(Time("110 s"), "wan", [night, night], Rate("0 bit/s"))
    with pytest.raises(BadInput, match='"lan"'):
        calendar.set_capacity(Time("110 s"), "lan", [], Rate("0 bit/s"))


def test_a_restored_calendar_goes_on_as_the_first():
    calendar = Calendar(one_link(), "global-sjf", EPOCH)
    submit(calendar, "0 s", "first", "5 GB", "100 s")
    again = Calendar.restore(calendar.snapshot())
    assert again.snapshot() == calendar.snapshot()
    assert (
        submit(again, "1 s", "x", "1 GB", "90 s").rate
        == submit(calendar, "1 s", "x", "1 GB", "90 s").rate
    )


def test_bad_requests_name_what_is_wrong_and_change_nothing():
    calendar = Calendar(g_scale(), "global-ljf", EPOCH)
    size, deadline = Bytes("1 GB"), Time("1 h")
    calendar.submit(Time("1 s"), "t", "1", "12", size, deadline)
    before = calendar.snapshot()
    for message, call in [
        ('"t" is in the calendar already', lambda: ("1 s", "t", "1", "2", size)),
        ('"13" is not a node', lambda: ("1 s", "u", "1", "13", size)),
        ('both "1"', lambda: ("1 s", "u", "1", "1", size)),
        ("size 0", lambda: ("1 s", "u", "1", "2", Bytes("0 B"))),
        ("empty id", lambda: ("1 s", "", "1", "2", size)),
        ("time goes back", lambda: ("0 s", "u", "1", "2", size)),
    ]:
        now, name, source, destination, amount = call()
        with pytest.raises(BadInput, match=message):
            calendar.submit(Time(now), name, source, destination, amount, deadline)
    with pytest.raises(BadInput, match='"nobody" is not in the calendar'):
        calendar.complete(Time("1 s"), "nobody")
    with pytest.raises(BadInput, match="more than its size"):
        calendar.progress(Time("1 s"), "t", Bytes("2 GB"))
    assert calendar.snapshot() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((one_link(), "fifo", EPOCH), '"fifo" is not a policy'),
        ((one_link(), "fixed", Time("0 s")), "epoch is 0"),
        ((one_link(0), "fixed", EPOCH), 'network: link "wan" has capacity 0'),
        ((one_link(-1), "fixed", EPOCH), r"links\[0\].capacity_bps"),
        ((one_link(float("nan")), "fixed", EPOCH), r"links\[0\].capacity_bps"),
        (("{}", "fixed", EPOCH), "missing field `nodes`"),
        (("", "fixed", EPOCH), "EOF"),
    ],
)
def test_a_calendar_that_cannot_be_is_bad_input(arguments, message):
    with pytest.raises(BadInput, match=message):
        Calendar(*arguments)
