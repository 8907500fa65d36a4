"""The store, on SQLite and on PostgreSQL alike."""

import contextlib
import dataclasses
import json
import os
import shutil
import sqlite3
import stat
import time
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from calendar_lab import settings

from weir.calendar.clock import Anchor
from weir.calendar.records import Event, Outcome, Snapshot, Step, Transfer
from weir.calendar.service.keeper import PACKED, Keeper, packed, unpacked
from weir.calendar.service.metrics import Metrics
from weir.calendar.storage import database, migrations, watch
from weir.calendar.storage import store as store_module
from weir.calendar.storage.ownership import Fenced, FileOwner, Held
from weir.calendar.storage.store import EVENTS_KEPT, Store
from weir.calendar.timetable import Entry, Timetable
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
        "declared_bytes": 10**18,
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


@pytest.mark.parametrize("count", [1, 3, 64, 150])
def test_many_rows_are_written_as_one_by_one(store, count):
    made = [transfer(f"t{n}", submitted_ns=n) for n in range(count)]
    store.commit([admitted(x, Event(n, n, "admitted", x.id, {})) for n, x in enumerate(made)])
    # Every third has only moved, the next is late as well, the last stays as it is.
    changed = [
        replace(x, bytes_durable=n + 1, risk="late" if n % 3 == 1 else "") if n % 3 < 2 else x
        for n, x in enumerate(made)
    ]
    store.commit([Outcome(transfers={x.id: x for x in changed})])
    assert store.active() == changed
    assert [x.transfer for x in store.events_after(-1, count)] == [x.id for x in made]


def test_what_a_failed_commit_may_have_left_is_written_whole(store):
    store.commit([admitted(transfer("t1"))])
    late = replace(transfer("t1"), risk="late")
    with pytest.raises(Unavailable):
        # The second of these is there already.
        store.commit([Outcome(transfers={"t1": late}), admitted(transfer("t1"))])
    store.commit([Outcome(transfers={"t1": replace(late, bytes_durable=7)})])
    assert store.active() == [replace(late, bytes_durable=7)]


def test_the_log_is_taken_over_beside_the_writer(tmp_path):
    path = tmp_path / "s.db"
    store = Store(f"sqlite:///{path}")
    store.commit([admitted(transfer(f"t{n}")) for n in range(200)])
    before = path.stat().st_size
    store.checkpoint()
    assert path.stat().st_size > before
    store.commit([admitted(transfer("t200"))])
    assert len(store.active()) == 201
    store.close()


def test_a_packed_state_is_unpacked_and_one_of_an_earlier_version_is_taken_as_it_is():
    state = json.dumps({"flows": [{"id": f"é{n}"} for n in range(1_000)]})
    assert len(packed(state)) < len(state) / 2
    assert unpacked(packed(state)) == unpacked(state) == state
    for damaged in (PACKED + "?", PACKED + "aaaa", packed(state)[:-40]):
        with pytest.raises(BadInput, match="unpacked"):
            unpacked(damaged)


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
    versions = []
    for _ in range(2):
        store = Store(store_url)
        with store._engine.connect() as connection:
            versions.append(connection.execute(sa.text("SELECT * FROM alembic_version")).all())
        store.close()
    assert versions[0] == versions[1]
    assert len(versions[0]) == 1


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


# --- whose the store is ---


def lose_the_lock(store):
    """Takes from a store what keeps others away, as a restarted server or a tidy user would."""
    if store.url.get_backend_name() == "sqlite":
        Path(f"{store.url.database}.lock").unlink()
        return
    lock = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
    database = " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    with store._engine.connect() as connection:
        assert connection.scalar(sa.text(lock + database))


def test_a_service_that_was_superseded_writes_nothing_more(store, store_url):
    store.commit([admitted(transfer("t1"))])
    lose_the_lock(store)
    second = Store(store_url)
    with pytest.raises(Fenced, match="taken it over"):
        store.commit([admitted(transfer("t2"))])
    assert second.find("t2") is None
    second.commit([admitted(transfer("t3"))])
    second.close()


def put_back(store, engine_ns, *lost, **changes):
    """Makes a store what it was before some transfers, as a copy does that is restored."""
    values = {"engine_ns": engine_ns, **changes}
    with store._engine.begin() as connection:
        connection.execute(sa.update(store_module._service).values(values))
        gone = store_module._transfers.c.id.in_(lost)
        connection.execute(sa.delete(store_module._transfers).where(gone))


def test_what_follows_a_promise_that_is_gone_is_not_written_as_if_it_were_there(store, caplog):
    anchors = [Anchor(time_ns, 0, "boot", time_ns) for time_ns in (2**60, 2**60 + 10**9, 2**61)]
    store.commit([admitted(transfer("t1"))], anchor=anchors[0])
    store.commit([admitted(transfer("t2"))], anchor=anchors[1])
    put_back(store, 2**60, "t2")
    moved = Outcome(transfers={"t2": transfer("t2", bytes_durable=5)})
    with pytest.raises(Unavailable, match=r"put back to 1\.0 s ago") as caught:
        store.commit([moved], anchor=anchors[2])
    assert not isinstance(caught.value, Fenced)
    assert "put back to 1.0 s ago" in caplog.text
    # Whoever has read what is there now may go on.
    assert store.active() == [transfer("t1")]
    store.commit([admitted(transfer("t3"))], anchor=anchors[2])
    assert {x.id for x in store.active()} == {"t1", "t3"}


def test_a_store_that_was_put_back_to_before_a_services_start_is_not_its_any_more(store):
    store.commit([admitted(transfer("t1"))], anchor=Anchor(7, 0, "boot", 7))
    put_back(store, 5, "t1", generation=0)
    with pytest.raises(Fenced, match="put back to before this service's start"):
        store.commit([admitted(transfer("t2"))], anchor=Anchor(8, 0, "boot", 8))
    assert store.active() == []


@pytest.fixture
def impatient(monkeypatch):
    """Whoever stands by has seen soon that nothing comes of a service."""
    monkeypatch.setattr(watch, "STILL_S", 0.3)


def seen_again(watched):
    """Whether the holder's sessions are ended in a few looks."""
    return any(time.sleep(0.1) or watched.ends_what_stands_still() for _ in range(8))


def test_a_service_that_stands_still_gives_way_to_one_that_stands_by(postgres_store, impatient):
    still = Store(postgres_store)
    # It was stopped in the middle of a commit.
    begun = still._engine.connect()
    begun.execute(sa.update(store_module._service).values(engine_ns=3))
    assert seen_again(watch.Watch(postgres_store))
    second = Store(postgres_store)
    second.commit([admitted(transfer("t1"))])
    with pytest.raises(sa.exc.OperationalError):
        begun.commit()
    begun.close()
    with pytest.raises(Fenced):
        still.tend()
    with pytest.raises(Fenced):
        still.commit([admitted(transfer("t2"))])
    assert second.active() == [transfer("t1")]
    second.close()
    still.close()


def test_a_service_that_writes_its_time_is_left_alone(postgres_store, impatient):
    store, watched = Store(postgres_store), watch.Watch(postgres_store)
    for now_ns in range(1, 9):
        store.commit([], anchor=Anchor(now_ns, 0, "boot", now_ns), always=True)
        time.sleep(0.1)
        assert not watched.ends_what_stands_still()
    store.tend()
    store.close()


def test_who_was_held_up_itself_has_seen_nothing(postgres_store, impatient, monkeypatch):
    store = Store(postgres_store)
    monkeypatch.setattr(watch, "LOOKS_APART_S", 0.05)
    assert not seen_again(watch.Watch(postgres_store))
    store.tend()
    store.close()


def test_a_file_is_taken_from_nobody(tmp_path, impatient):
    store = Store(f"sqlite:///{tmp_path / 's.db'}")
    assert not seen_again(watch.Watch(f"sqlite:///{tmp_path / 's.db'}"))
    store.close()


def test_a_lock_that_postgresql_lost_is_taken_again(postgres_store):
    store = Store(postgres_store)
    lose_the_lock(store)
    store.tend()
    with pytest.raises(Unavailable, match="another calendar service"):
        Store(postgres_store)
    store.commit([admitted(transfer())])
    store.close()


def test_whoever_finds_its_lock_with_another_is_told_so(postgres_store):
    store = Store(postgres_store)
    lose_the_lock(store)
    second = Store(postgres_store)
    with pytest.raises(Fenced):
        store.tend()
    second.close()
    store.close()


def test_the_services_time_is_kept_with_every_commit(store, store_url):
    assert store.anchor() is None
    anchor = Anchor(2**61, -5, "boot", 7)
    assert store.commit([], anchor=anchor) is False
    store.commit([admitted(transfer())], anchor=anchor)
    assert store.anchor() == anchor


def test_a_store_of_the_first_version_goes_on_after_its_newest_event(tmp_path):
    url = f"sqlite:///{tmp_path / 's.db'}"
    Store(url).close()
    with sqlite3.connect(tmp_path / "s.db") as old:
        old.execute("DROP TABLE service")
        later = ("declared_bytes", "start_ns", "least_bytes", "promised_bytes", "weight")
        for column in (*later, "answer_ns", "refusal", "paths_max", "paths"):
            old.execute(f"ALTER TABLE transfers DROP COLUMN {column}")
        old.execute("DROP TABLE timetables")
        old.execute("DROP TABLE elephants")
        for index in ("events_transfer", "events_request", "events_owner", "transfers_finished"):
            old.execute(f"DROP INDEX {index}")
        for column in ("request", "owner", "idempotency_key"):
            old.execute(f"ALTER TABLE events DROP COLUMN {column}")
        old.execute("UPDATE alembic_version SET version_num = '0001'")
        old.execute("INSERT INTO events VALUES (1, 77, 'rates', NULL, '{}')")
        old.execute("INSERT INTO snapshots VALUES (1, 'c', 's')")
    old.close()
    store = Store(url)
    assert store.anchor() == Anchor(77, 0, "", 0)
    assert store.snapshot() is None
    store.close()


NIGHTS = Entry(500_000_000, "22:00", "06:00", daily=True)
# What a store of some earlier version held of each kind, by all columns that came later, too.
KEPT_ROWS = {
    "transfers": [
        {
            "id": identifier,
            "owner": "ana",
            "idempotency_key": key,
            "fingerprint": "f" * 64,
            "source": "dtn1",
            "source_path": "a/ü ☃",
            "destination": "dtn3",
            "destination_path": identifier,
            "size_bytes": 10**12,
            "declared_bytes": 10**12,
            "deadline_ns": 2**62,
            "rate_max_bps": 10**9,
            "state": state,
            "submitted_ns": 5,
            "started_ns": 6,
            "finished_ns": 7 if state == "completed" else None,
            "bytes_durable": 3,
            "path": '["access1.forward", "core.forward", "access3.forward"]',
            "planned": state != "completed",
            "plan_ns": 2**62 - 10**9,
            "risk": "",
            "missed": False,
            "file_hash": "b3" if state == "completed" else None,
            "error": None,
            "start_ns": None,
            "least_bytes": None,
            "promised_bytes": None,
            "weight": 1,
            "answer_ns": None,
            "refusal": None,
        }
        for identifier, key, state in (("one", "k", "running"), ("two", None, "completed"))
    ],
    "steps": [{"number": 9, "at_ns": 8, "kind": "epoch", "payload": "{}"}],
    "snapshots": [{"number": 8, "configuration": "c", "state": "s"}],
    "events": [
        {
            "number": 4,
            "at_ns": 77,
            "kind": "started",
            "transfer": "one",
            "data": "{}",
            "request": None,
            "owner": None,
            "idempotency_key": None,
        }
    ],
    "timetables": [
        {"link": "core.forward", "document": json.dumps(Timetable((NIGHTS,)).to_json())}
    ],
    "elephants": [],
}


def write_old(url, version):
    """A store as Weir had it at that version, made by the migrations up to it alone."""
    engine = database.engine(database.parsed(url))
    with engine.connect() as connection:
        config = Config()
        config.set_main_option("script_location", str(Path(migrations.__file__).parent))
        config.attributes["connection"] = connection
        command.upgrade(config, version)
        connection.commit()
        there = sa.MetaData()
        there.reflect(connection)
        for name, rows in KEPT_ROWS.items():
            if name in there.tables and rows:
                known = there.tables[name].columns.keys()
                kept = [{key: x for key, x in row.items() if key in known} for row in rows]
                connection.execute(sa.insert(there.tables[name]), kept)
        if "service" in there.tables:
            time = {"generation": 6, "engine_ns": 70, "offset_ns": 2, "boot_id": "b", "boot_ns": 1}
            connection.execute(sa.update(there.tables["service"]).values(time))
        connection.commit()
        found = set(there.tables["transfers"].columns.keys())
    engine.dispose()
    return found


@pytest.mark.parametrize("version", ["0001", "0004", "0008"])
def test_a_store_of_an_earlier_version_keeps_everything(store_url, version):
    known = write_old(store_url, version)
    assert not {"paths", "paths_max"} & known
    store = Store(store_url)
    one, two = (
        Transfer(**row | {"path": tuple(json.loads(row["path"])), "paths_max": 1, "paths": ()})
        for row in KEPT_ROWS["transfers"]
    )
    assert store.active() == [one]
    assert store.find("two") == two
    assert store.find_key("ana", "k") == one
    assert store.page(["completed"], None, 9) == [two]
    assert store.steps_after(8) == [Step(9, 8, "epoch", {})]
    assert store.events_after(0, 9) == [Event(4, 77, "started", "one", {})]
    # The first version had no time of the service's own, and so its plan is made anew.
    assert store.snapshot() == (None if version == "0001" else Snapshot(8, "c", "s"))
    anchor = Anchor(77, 0, "", 0) if version == "0001" else Anchor(70, 2, "b", 1)
    assert store.anchor() == anchor
    assert store.last_numbers() == (9, 4)
    # One that came with that version, or before it.
    assert store.timetables().keys() == ({"core.forward"} if version == "0008" else set())
    with store._engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM transfers")) == 2
    # What is new is written beside what was there.
    wide = transfer("three", paths_max=2, paths=(("l1", "l2"), ("l3",)))
    moved = dataclasses.replace(one, bytes_durable=4)
    store.commit([admitted(wide), Outcome(transfers={"one": moved})])
    store.close()
    again = Store(store_url)
    assert {x.id: x for x in again.active()} == {"one": moved, "three": wide}
    again.close()


def test_what_an_earlier_version_promised_is_planned_again(store_url):
    write_old(store_url, "0008")
    store = Store(store_url)
    taken = Keeper(settings("weir"), store, Metrics()).take_up(set())
    assert taken.active.keys() == taken.rates.keys() == {"one"}
    assert taken.active["one"].planned and not taken.active["one"].missed
    assert taken.timetables["core.forward"].entries == (NIGHTS,)
    assert 0 < taken.rates["one"] <= 10**9
    assert store.snapshot().number >= 9
    store.close()


# --- what befalls files ---


def modes(directory):
    return {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}


def test_the_files_are_their_owners_alone_from_the_start(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 's.db'}")
    store.commit([admitted(transfer())])
    names = ("s.db", "s.db-wal", "s.db-shm", "s.db.lock")
    assert modes(tmp_path) == dict.fromkeys(names, 0o600)
    store.close()


def test_files_that_are_open_to_others_are_closed_with_a_notice(tmp_path, caplog):
    Store(f"sqlite:///{tmp_path / 's.db'}").close()
    (tmp_path / "s.db").chmod(0o644)
    Store(f"sqlite:///{tmp_path / 's.db'}").close()
    assert modes(tmp_path)["s.db"] == 0o600
    assert "s.db was open to others (mode 644)" in caplog.text


@pytest.mark.parametrize("end", ["", "-wal"])
@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_promised_in_a_file_that_is_not_there_any_more(tmp_path, end, replaced):
    store = Store(f"sqlite:///{tmp_path / 's.db'}")
    store.commit([admitted(transfer("t1"))])
    path, aside = tmp_path / f"s.db{end}", tmp_path / "aside"
    path.rename(aside)
    if replaced:
        shutil.copy(aside, path)
    for _ in range(2):
        with pytest.raises(Unavailable, match=path.name):
            store.commit([admitted(transfer("t2"))])
    aside.rename(path)
    store.commit([admitted(transfer("t2"))])
    assert store.find("t2") == transfer("t2")
    store.close()


def damaged(path, how):
    with contextlib.closing(Store(f"sqlite:///{path}")) as store:
        store.commit([admitted(transfer(f"t{n}", error="x" * 999)) for n in range(400)])
    content = bytearray(path.read_bytes())
    if how == "cut":
        content = content[: len(content) // 2]
    elif how == "zeroed":
        content[4096 : len(content) // 2] = bytes(len(content) // 2 - 4096)
    else:
        content[:100] = b"not a database".ljust(100)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("how", "error"), [("cut", Unavailable), ("zeroed", Unavailable), ("other", BadInput)]
)
def test_a_damaged_file_is_said_to_be_one(tmp_path, how, error):
    path = tmp_path / "s.db"
    damaged(path, how)
    with pytest.raises(error, match=r"s\.db"):
        Store(f"sqlite:///{path}")


def test_a_row_that_makes_no_sense_is_damage_and_no_fault_of_ours(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 's.db'}")
    store.commit([admitted(transfer())])
    with sqlite3.connect(tmp_path / "s.db") as other:
        other.execute("UPDATE transfers SET path = 'l1, l2'")
    other.close()
    with pytest.raises(Unavailable, match="damaged"):
        store.find("t1")
    store.close()


def test_a_store_of_a_later_version_is_left_alone(tmp_path):
    Store(f"sqlite:///{tmp_path / 's.db'}").close()
    with sqlite3.connect(tmp_path / "s.db") as other:
        other.execute("UPDATE alembic_version SET version_num = '9999'")
    other.close()
    with pytest.raises(BadInput, match="another version"):
        Store(f"sqlite:///{tmp_path / 's.db'}")


def test_a_cluster_that_cannot_hold_every_name_is_refused(postgres):
    with psycopg.connect(f"{postgres}postgres", autocommit=True) as connection:
        connection.execute(
            "create database ascii encoding 'SQL_ASCII' template template0 locale 'C'"
        )
    with pytest.raises(BadInput, match="SQL_ASCII"):
        Store(f"{postgres}ascii")


def test_where_the_store_is_none_only_what_was_made_for_it_goes_away(tmp_path):
    path = tmp_path / "calendar.db"
    lock = Path(f"{path}.lock")
    # Both were there before: another's lock and a file that is empty.
    lock.write_text("another's")
    path.touch()
    owner = FileOwner(path, "it")
    owner.take()
    owner.release(wrong=True)
    assert lock.read_text() == "another's"
    assert path.exists()
    # Both are made, and both replaced meanwhile.
    lock.unlink()
    path.unlink()
    owner = FileOwner(path, "it")
    owner.take()
    for place in (lock, path):
        place.rename(tmp_path / f"{place.name}.away")
        place.touch()
    owner.release(wrong=True)
    assert lock.exists()
    assert path.exists()
    # Both are made and still what was made.
    lock.unlink()
    path.unlink()
    owner = FileOwner(path, "it")
    owner.take()
    owner.release(wrong=True)
    assert not lock.exists()
    assert not path.exists()


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFIFO])
@pytest.mark.parametrize("led", [False, True])
def test_what_keeps_nothing_is_no_store_and_nothing_is_left_beside_it(tmp_path, kind, led):
    """`--store sqlite:////dev/null` left a lock and a journal in `/dev`."""
    path = tmp_path / "dev" / "null"
    path.parent.mkdir()
    os.mknod(path, kind | 0o666, os.makedev(1, 3))
    path.chmod(0o666)
    given = path
    if led:
        given = tmp_path / "link.db"
        given.symlink_to(path)
    with pytest.raises(BadInput, match="is not a file"):
        Store(f"sqlite:///{given}")
    assert list(path.parent.iterdir()) == [path]
    assert set(tmp_path.iterdir()) == {path.parent, *([given] if led else ())}
    assert path.stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("there", [False, True])
def test_a_store_that_a_link_leads_to_is_one_store(tmp_path, there):
    """It ended for a log that SQLite has beside the file itself; and the lock stood elsewhere."""
    path, link = tmp_path / "large" / "s.db", tmp_path / "s.db"
    path.parent.mkdir()
    link.symlink_to(path)
    if there:
        Store(f"sqlite:///{path}").close()
    store = Store(f"sqlite:///{link}")
    store.commit([admitted(transfer())])
    names = ("s.db", "s.db-wal", "s.db-shm", "s.db.lock")
    assert modes(path.parent) == dict.fromkeys(names, 0o600)
    for other in (path, link, tmp_path / "large" / ".." / "s.db"):
        with pytest.raises(Held):
            Store(f"sqlite:///{other}")
    # What is acknowledged is what the name leads to.
    shutil.copy(path, tmp_path / "other.db")
    link.unlink()
    link.symlink_to(tmp_path / "other.db")
    with pytest.raises(Unavailable, match=r"s\.db is another file now"):
        store.commit([admitted(transfer("t2"))])
    store.close()
