"""The calendar's time: it never goes back, and steps of the wall clock are told, then followed."""

import asyncio

import pytest
from calendar_lab import request, settings
from hypothesis import given
from hypothesis import strategies as st
from rig import until_async

from weir.calendar.clock import NS_PER_S, SETTLE_NS, TOLERANCE_NS, Clock, parse_instant
from weir.calendar.problem import Problem
from weir.calendar.service.models import TransferRequest
from weir.calendar.service.service import Service
from weir.calendar.storage.store import Store

HOUR_NS = 3_600 * NS_PER_S
START_NS = parse_instant("2030-01-01T00:00:00Z")


class FakeSource:
    """A machine whose clocks go as they are told."""

    def __init__(self):
        self.wall, self.boot, self.boots = START_NS, NS_PER_S, 1

    def wall_ns(self):
        return self.wall

    def boot_ns(self):
        return self.boot

    def boot_id(self):
        return f"boot-{self.boots}"

    def pass_ns(self, span_ns):
        self.wall += span_ns
        self.boot += span_ns

    def reboot(self, span_ns):
        self.pass_ns(span_ns)
        self.boot, self.boots = NS_PER_S, self.boots + 1


def live(clock, source, seconds):
    """Lets time pass as the service does; what the clock said about the wall."""
    said = []
    for _ in range(round(seconds * 4)):
        source.pass_ns(NS_PER_S // 4)
        change = clock.observe()
        if change is not None:
            said.append(change.kind)
            if change.kind == "settled":
                clock.follow(change.ahead_ns)
    return said


def test_a_clock_that_is_an_hour_ahead_for_three_seconds_changes_nothing():
    source = FakeSource()
    clock = Clock(None, source)
    source.wall += HOUR_NS
    assert live(clock, source, 3) == ["stepped"]
    source.wall -= HOUR_NS
    assert live(clock, source, 60) == ["returned"]
    assert clock.now_ns() == source.wall


@pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS, 2 * NS_PER_S])
def test_a_step_that_lasts_is_followed_and_engine_time_goes_on(step_ns):
    source = FakeSource()
    clock = Clock(None, source)
    before = clock.anchor()
    source.wall += step_ns
    assert live(clock, source, SETTLE_NS / NS_PER_S + 1) == ["stepped", "settled"]
    assert clock.now_ns() == source.wall
    assert clock.anchor().engine_ns - before.engine_ns == SETTLE_NS + NS_PER_S


def test_sleep_is_time_that_passed_and_no_step():
    source = FakeSource()
    clock = Clock(None, source)
    source.pass_ns(8 * HOUR_NS)
    assert clock.observe() is None
    assert clock.now_ns() == source.wall


def test_a_restart_within_one_boot_knows_its_length_whatever_the_wall_did():
    source = FakeSource()
    anchor = Clock(None, source).anchor()
    source.pass_ns(7 * NS_PER_S)
    source.wall -= 5 * HOUR_NS
    again = Clock(anchor, source)
    assert again.anchor().engine_ns - anchor.engine_ns == 7 * NS_PER_S
    assert live(again, source, 20) == ["stepped", "settled"]
    assert again.now_ns() == source.wall


def test_over_a_reboot_the_wall_says_how_long_it_was_and_never_less_than_nothing():
    source = FakeSource()
    anchor = Clock(None, source).anchor()
    source.reboot(HOUR_NS)
    assert Clock(anchor, source).now_ns() == source.wall
    source.wall = START_NS - HOUR_NS
    again = Clock(anchor, source)
    assert again.anchor().engine_ns == anchor.engine_ns
    assert live(again, source, 20) == ["stepped", "settled"]


def test_a_machine_that_was_set_back_whole_does_not_take_time_back():
    source = FakeSource()
    source.pass_ns(HOUR_NS)
    anchor = Clock(None, source).anchor()
    source.boot -= HOUR_NS // 2
    source.wall -= HOUR_NS // 2
    assert Clock(anchor, source).anchor().engine_ns >= anchor.engine_ns


SPANS = st.integers(0, 40 * NS_PER_S)
STEPS = st.integers(-2 * HOUR_NS, 2 * HOUR_NS)
LIVES = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), SPANS),
        st.tuples(st.just("step"), STEPS),
        st.tuples(st.just("restart"), SPANS),
        st.tuples(st.just("reboot"), SPANS),
    ),
    max_size=12,
)


@given(LIVES)
def test_engine_time_never_goes_back_and_the_calendar_ends_at_the_wall(life):
    source = FakeSource()
    clock = Clock(None, source)
    last = clock.anchor()
    for what, span_ns in life:
        if what == "step":
            source.wall += span_ns
        elif what == "pass":
            live(clock, source, span_ns / NS_PER_S)
        elif what == "restart":
            source.pass_ns(span_ns)
            clock = Clock(last, source)
        else:
            source.reboot(span_ns)
            clock = Clock(last, source)
        clock.observe()
        now = clock.anchor()
        assert now.engine_ns >= last.engine_ns
        last = now
    live(clock, source, SETTLE_NS / NS_PER_S + 1)
    assert abs(clock.now_ns() - source.wall) <= TOLERANCE_NS


# --- the service by such a clock ---


def submission(service, **changes):
    asked = TransferRequest(**request(**changes))
    return asked.submission(
        service.settings.network, service.now_ns(), "me", None, asked.size_bytes
    )


def clock_events(service):
    told = [x for x in service._store.events_after(0, 99) if x.kind == "clock"]
    return [(x.data["change"], x.data["ahead_s"]) for x in told]


def lived(tmp_path, source, life):
    """Runs a service on the store in `tmp_path` for as long as `life` takes."""

    async def run():
        store = Store(f"sqlite:///{tmp_path / 'calendar.db'}")
        service = Service(settings(), store, source)
        await service.start()
        try:
            return await life(service)
        finally:
            await service.stop()

    return asyncio.run(run())


def test_nothing_is_missed_or_refused_by_a_clock_that_jumps_and_comes_back(tmp_path):
    source = FakeSource()

    async def jumps(service):
        first, _ = await service.submit(submission(service, deadline_s=600.0))
        source.wall += HOUR_NS
        await until_async(lambda: clock_events(service))
        source.pass_ns(3 * NS_PER_S)
        # An instant is taken by the calendar's time, so neither is it in the past by now.
        await service.submit(submission(service, size_bytes=10**6, deadline_s=600.0))
        source.wall -= HOUR_NS
        await until_async(lambda: len(clock_events(service)) == 2)
        source.pass_ns(NS_PER_S)
        return first

    async def after(service):
        transfer = await service.find(first.id)
        assert (transfer.missed, transfer.deadline_ns) == (False, START_NS + 600 * NS_PER_S)
        _, new = await service.submit(submission(service, size_bytes=10**6))
        assert new
        assert clock_events(service) == [("stepped", 3600.0), ("returned", 0.0)]

    first = lived(tmp_path, source, jumps)
    lived(tmp_path, source, after)


def test_a_step_that_lasts_moves_every_deadline_and_the_plan_with_it(tmp_path):
    source = FakeSource()

    async def back(service):
        # 80 % of the link for 60 s; after the step there is an hour more.
        made, _ = await service.submit(submission(service, size_bytes=6 * 10**9))
        asked = {"size_bytes": 6 * 10**9, "deadline_s": 90.0}
        with pytest.raises(Problem, match="core"):
            await service.submit(submission(service, **asked))
        source.wall -= HOUR_NS
        await until_async(lambda: clock_events(service))
        source.pass_ns(SETTLE_NS)
        await until_async(lambda: abs(service.now_ns() - source.wall) < TOLERANCE_NS)
        # What the hour makes room for is admitted.
        second, _ = await service.submit(submission(service, **asked))
        assert [x.id for x in await service.page(["accepted"], None, 9)] == [made.id, second.id]
        told = (await service.metrics_text()).decode()
        assert 'weir_clock_steps_total{change="settled"} 1.0' in told

    lived(tmp_path, source, back)


def test_a_deadline_that_a_wrong_clock_had_missed_is_open_again(tmp_path):
    source = FakeSource()

    async def forth_and_back(service):
        made, _ = await service.submit(submission(service, size_bytes=10**6, deadline_s=600.0))
        source.wall += HOUR_NS
        await until_async(lambda: clock_events(service))
        source.pass_ns(SETTLE_NS)
        await until_async(lambda: service.active[made.id].missed)
        source.wall -= HOUR_NS
        await until_async(lambda: len(clock_events(service)) == 3)
        source.pass_ns(SETTLE_NS)
        await until_async(lambda: not service.active[made.id].missed)
        return made.id

    async def kept(service):
        assert service.active[made].missed is False

    made = lived(tmp_path, source, forth_and_back)
    lived(tmp_path, source, kept)
