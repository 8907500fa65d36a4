"""The store, on SQLite and on PostgreSQL alike."""

import pytest
import sqlalchemy as sa

from weir.calendar.records import Event, Outcome, Snapshot, Step, Transfer
from weir.calendar.store import EVENTS_KEPT, Store
from weir.errors import BadInput, Unavailable


def transfer(identifier="t1", **changes):
    values = {
        "id": identifier,
        "owner": "me",
        "idempotency_key": None,
        "fingerprint": "0" * 64,
        "source": "dtn1",
        "source_path": "a/b ü ☃",
        "destination": "dtn3",
        "destination_path": "c",
        "size_bytes": 10**18,
        "deadline_ns": 2**62,
        "rate_max_bps": 2**62,
        "state": "accepted",
        "submitted_ns": 2**61,
        "started_ns": None,
        "finished_ns": None,
        "bytes_durable": 0,
        "path": ("l1", "l2"),
        "planned": True,
        "plan_ns": 2**62,
        "risk": "",
        "missed": False,
        "file_hash": None,
        "error": None,
    }
    return Transfer(**(values | changes))


def admitted(new, *events, steps=()):
    return Outcome(admitted=new.id, transfers={new.id: new}, events=list(events), steps=list(steps))


@pytest.fixture
def store(store_url):
    opened = Store(store_url)
    yield opened
    opened.close()


def test_what_was_committed_is_there_for_the_next_service(store_url):
    first = Store(store_url)
    event = Event(1, 5, "admitted", "t1", {"rate_bps": 7})
    step = Step(1, 5, "submit", {"id": "t1"})
    first.commit([admitted(transfer(), event, steps=[step])])
    first.close()
    second = Store(store_url)
    assert second.active() == [transfer()]
    assert second.find("t1") == transfer()
    assert second.events_after(0, 10) == [event]
    assert second.steps_after(0) == [step]
    assert second.last_numbers() == (1, 1)
    second.close()


def test_a_change_is_kept_and_an_unknown_id_is_none(store):
    store.commit([admitted(transfer())])
    moved = transfer(state="running", started_ns=3, bytes_durable=4, risk="late", missed=True)
    store.commit([Outcome(transfers={"t1": moved})])
    assert store.find("t1") == moved
    assert store.find("t2") is None


def test_admission_and_change_in_one_batch_keep_the_last(store):
    done = transfer(state="completed", finished_ns=9, file_hash="b3")
    store.commit([admitted(transfer()), Outcome(transfers={"t1": done})])
    assert store.find("t1") == done
    assert store.active() == []


def test_a_commit_is_all_or_nothing(store):
    store.commit([admitted(transfer())])
    with pytest.raises(Unavailable):
        # The second of these is there already.
        store.commit([admitted(transfer("t2")), admitted(transfer("t1"))])
    assert store.find("t2") is None


def test_an_owner_uses_an_idempotency_key_once(store):
    store.commit([admitted(transfer("t1", idempotency_key="k"))])
    store.commit([admitted(transfer("t2", idempotency_key="k", owner="other"))])
    store.commit([admitted(transfer("t3")), admitted(transfer("t4"))])  # none is no key
    assert store.find_key("me", "k").id == "t1"
    assert store.find_key("me", "l") is None
    with pytest.raises(Unavailable):
        store.commit([admitted(transfer("t5", idempotency_key="k"))])


def test_pages_are_newest_first_and_meet_without_overlap(store):
    # Two of each instant, so that the order of equal ones matters.
    store.commit([admitted(transfer(f"t{n}", submitted_ns=n // 2)) for n in range(9)])
    store.commit([Outcome(transfers={"t3": transfer("t3", state="failed", submitted_ns=1)})])
    seen, before = [], None
    while page := store.page(["accepted"], before, 3):
        seen += [x.id for x in page]
        before = page[-1]
    assert seen == ["t8", "t7", "t6", "t5", "t4", "t2", "t1", "t0"]
    assert [x.id for x in store.page(["failed", "completed"], None, 9)] == ["t3"]


def test_a_snapshot_replaces_the_steps_before_it(store):
    steps = [Step(n, n, "epoch", {}) for n in range(1, 6)]
    store.commit([Outcome(steps=steps)])
    store.commit([], Snapshot(3, "configuration", "state"))
    assert store.snapshot() == Snapshot(3, "configuration", "state")
    assert [x.number for x in store.steps_after(3)] == [4, 5]
    assert [x.number for x in store.steps_after(0)] == [4, 5]
    store.commit([Outcome(steps=[Step(6, 6, "epoch", {})])], Snapshot(6, "c", "s"))
    assert store.snapshot() == Snapshot(6, "c", "s")
    assert store.steps_after(6) == []


def test_old_events_are_pruned_with_a_snapshot(store):
    events = [Event(n, n, "rates", None, {}) for n in (1, 2, EVENTS_KEPT + 1, EVENTS_KEPT + 2)]
    store.commit([Outcome(events=events)], Snapshot(1, "c", "s"))
    assert [x.number for x in store.events_after(0, 10)] == [EVENTS_KEPT + 1, EVENTS_KEPT + 2]


def test_two_services_cannot_share_a_store(store, store_url):
    with pytest.raises(Unavailable, match="another calendar service"):
        Store(store_url)


def test_opening_twice_in_turn_migrates_once(store_url):
    for _ in range(2):
        Store(store_url).close()


def test_sqlite_waits_for_the_disk(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 's.db'}")
    with store._engine.connect() as connection:
        assert connection.scalar(sa.text("PRAGMA journal_mode")) == "wal"
        assert connection.scalar(sa.text("PRAGMA synchronous")) == 2  # FULL
    store.close()


@pytest.mark.parametrize(
    ("url", "error", "said"),
    [
        ("nonsense", BadInput, "nonsense"),
        ("mysql://me@host/db", BadInput, "mysql"),
        ("sqlite://", BadInput, "memory"),
        ("sqlite:////proc/nowhere/x.db", BadInput, "/proc/nowhere"),
        ("postgresql://weir:secret@127.0.0.1:1/none", Unavailable, "127.0.0.1"),
    ],
)
def test_a_store_that_cannot_be_opened_is_named_without_its_password(url, error, said):
    with pytest.raises(error, match=said) as caught:
        Store(url)
    assert "secret" not in str(caught.value)
