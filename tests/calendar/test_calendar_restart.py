"""What a restart has to do before it can answer is bounded, however long the service ran."""

import subprocess
import sys
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from calendar_lab import CalendarProcess, request, settings
from test_calendar_planner import asked

from weir.calendar.planning import engine
from weir.calendar.planning.reports import Report
from weir.calendar.service import keeper
from weir.calendar.service.keeper import Keeper
from weir.calendar.service.metrics import Metrics
from weir.calendar.settings import DEFAULT_POLICY
from weir.calendar.storage import migrations
from weir.calendar.storage.store import Store

OPEN_AND_LIST_MODULES = """
import sys
from weir.calendar.storage.store import Store
Store(sys.argv[1]).close()
print(*sorted(sys.modules))
"""


def test_the_newest_version_is_the_one_that_alembic_leads_to():
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    assert ScriptDirectory.from_config(config).get_heads() == [migrations.newest()]


def test_a_store_that_is_up_to_date_is_opened_without_alembic(tmp_path):
    url = f"sqlite:///{tmp_path / 's.db'}"
    command = [sys.executable, "-c", OPEN_AND_LIST_MODULES, url]
    first, second = (subprocess.check_output(command, text=True).split() for _ in range(2))
    assert "alembic" in first
    assert "alembic" not in second


@pytest.fixture
def spent(monkeypatch):
    """Each look at the processor's time finds as much more spent: by steps, and by the states."""

    class Spent:
        step_s = state_s = clock_s = 0.0

        def step(self):
            self.clock_s += self.step_s
            return self.clock_s

        def state(self):
            self.clock_s += self.state_s
            return self.clock_s

    spent = Spent()
    monkeypatch.setattr(engine, "spent_s", spent.step)
    monkeypatch.setattr(keeper, "spent_s", spent.state)
    return spent


@pytest.mark.parametrize("policy", ["local-ljf", "weir"])
def test_the_steps_that_a_restart_takes_again_are_bounded(tmp_path, monkeypatch, spent, policy):
    monkeypatch.setattr(keeper, "SNAPSHOT_S", 0.002)
    store = Store(f"sqlite:///{tmp_path / 's.db'}")
    kept = Keeper(settings(policy), store, Metrics())
    kept.take_up(set())
    far_s = kept.clock.now_ns() // 10**9
    names = [f"t{number}" for number in range(30)]
    requests = [asked(x, 1_000_000, far_s, source_path=x) for x in names]
    kept.process([lambda plan, now, x=x: plan.submit(now, x) for x in requests], set())
    write_state(kept)
    reports = [Report(x, "running", 1_000, 1_000_000) for x in names]
    for _ in range(40):
        kept.process([lambda plan, now: plan.report(now, "dtn1", reports)], set())
        write_state(kept)
        snapshot = store.snapshot()
        steps = store.steps_after(snapshot.number)
        # The state after the one that goes beyond it is stored with the next.
        each_s = [1e-4 + 1e-5 * len(x.payload.get("remaining", ())) for x in steps]
        assert sum(each_s) < 0.0025
    assert snapshot.number > 30
    store.close()


def write_state(kept):
    """What the service has another thread do."""
    making = kept.to_make()
    if making is not None:
        kept.made(making, making())


@pytest.mark.parametrize("policy", ["local-ljf", "weir"])
def test_a_state_that_is_stored_late_leads_to_the_same_plan(tmp_path, monkeypatch, spent, policy):
    monkeypatch.setattr(keeper, "SNAPSHOT_S", 5e-4)
    store = Store(f"sqlite:///{tmp_path / 's.db'}")
    kept = Keeper(settings(policy), store, Metrics())
    kept.take_up(set())
    far_s = kept.clock.now_ns() // 10**9
    makings = []
    for number in range(40):
        one = asked(f"t{number}", 1_000_000, far_s)
        kept.process([lambda plan, now, one=one: plan.submit(now, one)], set())
        making = kept.to_make()
        if making is not None:
            assert not makings, "one at a time"
            makings.append((number, making))
        # It takes long enough for seven others to be admitted meanwhile.
        if makings and number >= makings[0][0] + 7:
            _, making = makings.pop()
            kept.made(making, making())
    state, rates = kept._planner.engine.snapshot(), dict(kept._planner.rates)
    stored, steps = store.snapshot(), store.steps_after(0)
    assert 0 < stored.number < kept._planner.engine.last_step
    assert steps[0].number == stored.number + 1
    # As a killed service's store is taken up by the next.
    again = Keeper(settings(policy), store, Metrics())
    taken = again.take_up(set())
    assert (again._planner.engine.snapshot(), taken.rates) == (state, rates)
    # What was begun before the plan was taken up again is of no use.
    kept.process([lambda plan, now: plan.submit(now, asked("u", 10**6, far_s))], set())
    if makings:
        kept.take_up(set())
        _, making = makings.pop()
        kept.made(making, making())
        assert kept._made is None
    store.close()


def test_a_plan_that_is_made_anew_is_not_followed_by_an_older_state(tmp_path, monkeypatch, spent):
    monkeypatch.setattr(keeper, "SNAPSHOT_S", 1e-4)
    store = Store(f"sqlite:///{tmp_path / 's.db'}")
    kept = Keeper(settings(), store, Metrics())
    kept.take_up(set())
    far_s = kept.clock.now_ns() // 10**9
    kept.process([lambda plan, now: plan.submit(now, asked("a", 10**6, far_s))], set())
    making = kept.to_make()
    assert making is not None and kept.to_make() is None
    # The clock has stepped: everything is planned anew.
    kept.follow(10**9, set())
    newer = store.snapshot()
    kept.made(making, making())
    kept.process([lambda plan, now: plan.submit(now, asked("b", 10**6, far_s))], set())
    assert store.snapshot() == newer
    store.close()


def test_a_plan_is_saved_by_the_time_that_its_steps_take(tmp_path, spent):
    store, kept = begun(tmp_path)
    spent.step_s = 0.3
    for number in range(12):
        submit(kept, number)
        # Four of them are more than a second, and the state is stored with the next commit.
        assert len(store.steps_after(store.snapshot().number)) <= 4
    assert store.snapshot().number >= 8
    store.close()


def test_steps_that_were_long_to_take_again_are_taken_again_once(tmp_path, spent):
    store, kept = begun(tmp_path)
    for number in range(6):
        submit(kept, number)
    assert store.snapshot().number == 0
    # The next service is on a machine where each takes longer.
    spent.step_s = 0.2
    again = Keeper(settings("weir"), store, Metrics())
    again.take_up(set())
    submit(again, 6)
    again.process([], set())
    assert store.snapshot().number == 7
    store.close()


def test_a_plan_that_takes_long_to_save_is_saved_less_often(tmp_path, spent):
    store, kept = begun(tmp_path)
    spent.step_s, spent.state_s = 0.4, 1.0
    saved = []
    for number in range(40):
        submit(kept, number)
        saved.append(store.snapshot().number)
    # Copied in a second and written in another, it waits for eight: twenty steps.
    assert [x for x in dict.fromkeys(saved) if x] == [3, 23]
    store.close()


def begun(folder):
    """A store, and the first who keeps it."""
    store = Store(f"sqlite:///{folder / 's.db'}")
    kept = Keeper(settings("weir"), store, Metrics())
    kept.take_up(set())
    return store, kept


def submit(kept, number):
    """Has one more admitted, as the service has it."""
    one = asked(f"t{number}", 1_000_000, kept.clock.now_ns() // 10**9 + 3_600)
    _, (outcome,) = kept.process([lambda plan, now: plan.submit(now, one)], set())
    assert outcome.answer
    write_state(kept)


def test_a_store_goes_on_with_the_policy_that_it_was_begun_with(tmp_path):
    process = CalendarProcess(tmp_path, options=["--policy", "fixed"])

    def served(options):
        """Which policy serves, and the one transfer, after a start with these options."""
        process.options = options
        process.start()
        with process.client() as client:
            found = client.network()["policy"], client.list("active")
        process.stop()
        return found

    log = tmp_path / "calendar.log"
    process.start()
    with process.client() as client:
        admitted = client.submit(request(size_bytes=10**12, deadline_s=86_400.0))
    process.stop()
    assert "policy" not in log.read_text()
    policy, (kept,) = served([])
    assert (policy, kept["id"], kept["rate_bps"]) == ("fixed", admitted["id"], admitted["rate_bps"])
    assert "was begun with the policy fixed and goes on with it" in log.read_text()
    # Told so, it changes, and the promise is kept.
    policy, (kept,) = served(["--policy", "weir"])
    assert (policy, kept["id"], kept["risk"]) == ("weir", admitted["id"], None)
    assert served([])[0] == "weir"


def test_a_store_without_a_plan_begins_with_the_default(tmp_path):
    process = CalendarProcess(tmp_path).start()
    with process.client() as client:
        assert client.network()["policy"] == DEFAULT_POLICY
    process.stop()
