"""Whom time concerns is found without looking at everybody, and nobody is forgotten."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from test_calendar_planner import asked, planner

from weir.calendar import watch
from weir.calendar.watch import Watch

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
    assert len(watched._instants) < 20
    assert watched.due(1_998 * SECOND) == set()
    assert watched.due(2_000 * SECOND) == {TRANSFER.id}
