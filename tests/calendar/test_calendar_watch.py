"""Whom time concerns is found without looking at everybody, and nobody is forgotten."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from test_calendar_planner import asked, planner

from weir.calendar.planning import watch
from weir.calendar.planning.watch import Instants, Watch

SECOND = 10**9
(TRANSFER,) = planner().submit(0, asked()).transfers.values()

instants = st.integers(0, 20).map(lambda x: x * SECOND)
transfers = st.builds(
    lambda identifier, changes: replace(TRANSFER, id=identifier, **changes),
    st.sampled_from("abcd"),
    st.fixed_dictionaries(
        {
            "state": st.sampled_from(["scheduled", "accepted"]),
            "start_ns": instants,
            "deadline_ns": instants,
            "plan_ns": instants,
            "planned": st.booleans(),
            "missed": st.booleans(),
            "risk": st.sampled_from(["", "behind"]),
            "promised_bytes": st.sampled_from([None, 10]),
            "bytes_durable": st.sampled_from([0, 20]),
        }
    ),
)


def concerns(transfer, now_ns):
    """Whether time has brought something to be done, by looking at it."""
    if transfer.state == "scheduled" and now_ns >= transfer.start_ns:
        return True
    if now_ns > transfer.deadline_ns and not (transfer.missed or transfer.is_rest):
        return transfer.state != "scheduled"
    return not transfer.planned or transfer.plan_ns > transfer.deadline_ns


@given(st.lists(st.tuples(transfers, instants), max_size=30))
def test_whoever_has_something_to_be_done_is_found(steps):
    watched, known, now_ns = Watch(), {}, 0
    for transfer, step_ns in steps:
        now_ns += step_ns // 10
        known[transfer.id] = transfer
        watched.note(transfer)
        found = watched.due(now_ns)
        assert {x for x, one in known.items() if concerns(one, now_ns)} <= found
        assert watched.troubled == {x for x, one in known.items() if one.risk or one.missed}
        for identifier in found:
            # What was to be done was done.
            done = {"state": "accepted", "missed": True, "planned": True, "plan_ns": 0}
            known[identifier] = replace(known[identifier], **done)
            watched.note(known[identifier])


changes = st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 20)))


@given(st.lists(st.one_of(changes, st.integers(0, 25)), max_size=60))
def test_instants_that_have_come_are_found_for_as_long_as_they_stay(steps):
    """A pair gives a name an instant, or takes it; a number asks then."""
    found, known = Instants("d"), {"d": 0}
    for step in steps:
        if isinstance(step, int):
            come = found.come(step)
            # What has once come is not looked at again, though somebody asks for an earlier time.
            assert {x for x, at in known.items() if at <= step} <= set(come) <= known.keys()
            assert len(set(come)) == len(come)
            continue
        name, at = step
        if at is None:
            found.drop(name)
            known.pop(name, None)
        else:
            found.put(name, at)
            known[name] = at
        assert {x: found.get(x, -1) for x in "abcd"} == {x: known.get(x, -1) for x in "abcd"}
    found.clear()
    assert found.come(100) == []


def test_nobody_is_looked_at_before_time_or_after_the_end():
    watched = Watch()
    watched.note(replace(TRANSFER, deadline_ns=5 * SECOND, plan_ns=4 * SECOND))
    assert watched.due(5 * SECOND) == set()
    watched.forget(TRANSFER.id)
    assert watched.due(6 * SECOND) == set()


def test_what_does_not_count_any_more_is_not_kept(monkeypatch):
    monkeypatch.setattr(watch, "STALE_MAX", 10)
    watched = Watch()
    for number in range(1_000):
        watched.note(replace(TRANSFER, plan_ns=0, deadline_ns=(1_000 + number) * SECOND))
    assert len(watched._instants._heap) < 20
    assert watched.due(1_998 * SECOND) == set()
    assert watched.due(2_000 * SECOND) == {TRANSFER.id}
