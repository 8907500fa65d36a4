"""When requests are due and what samples they make, in recorded time: nothing sleeps."""

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from probe_rig import RecordedPath

from weir.errors import BadInput
from weir.ops.probing.pattern import Pattern
from weir.ops.probing.plan import Plan
from weir.ops.probing.prober import Prober

MS = 1_000_000
BEGIN = 2 * 10**9


def samples_of(path, plan, **options):
    return list(Prober(path, plan, path, BEGIN, **options).samples())


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(7), Fraction(100), Fraction(1, 3)])
def test_the_period_is_kept_over_many_samples_by_a_prober_that_oversleeps(rate):
    random = Random(1)
    path = RecordedPath(lambda key: 5 * MS, lambda until_ns: random.randrange(0, 400_000))
    count = 3000
    samples = samples_of(path, Plan(rate, requests=3, seconds=count / rate))
    assert [sample.index for sample in samples] == list(range(count))
    for sample in samples:
        # Absolute deadlines: index / rate, exactly, to the last nanosecond after 3000 periods.
        due = BEGIN + sample.index * 10**9 * rate.denominator // rate.numerator
        assert sample.at_ns == due
        sent = [path.sent[sample.index * 3 + number] for number in range(3)]
        late = [at - due - number * MS for number, at in enumerate(sent)]
        assert min(late) >= 0
        assert sample.late_ns == max(late) < 400_000
    assert max(sample.late_ns for sample in samples) > 300_000


def test_a_sample_is_the_mean_of_its_replies_and_counts_the_lost():
    # Of every ten, requests 2 and 7 are lost; 4 takes longer than the timeout.
    def answer(key):
        number = key % 10
        return {2: None, 7: None, 4: 1001 * MS}.get(number, (20 + number) * MS)

    samples = samples_of(RecordedPath(answer), Plan(seconds=Fraction(5)))
    assert len(samples) == 5
    for sample in samples:
        kept = [20, 21, 23, 25, 26, 28, 29]
        assert sample.replies_ns == [value * MS for value in kept]
        assert [n for n, rtt in enumerate(sample.rtts_ns) if rtt is None] == [2, 4, 7]
        assert sample.lost == 3
        assert sample.mean_ns == pytest.approx(sum(kept) / 7 * MS)
        assert sample.min_ns == 20 * MS
        assert not sample.held


def test_a_sample_without_a_reply_repeats_the_last_value_and_says_so():
    def answer(key):
        return None if key // 2 in (0, 3, 4) else (10 + key) * MS

    samples = samples_of(RecordedPath(answer), Plan(Fraction(10), 2, Fraction(6, 10)))
    assert [sample.held for sample in samples] == [True, False, False, True, True, False]
    expected = [None, 12.5, 14.5, 14.5, 14.5, 20.5]
    assert [sample.rtt_ns and sample.rtt_ns / MS for sample in samples] == expected


def test_samples_come_in_order_each_when_it_is_complete():
    # The first sample's reply takes 250 ms, the others' 5 ms: none overtakes it.
    path = RecordedPath(lambda key: 250 * MS if key == 0 else 5 * MS)
    prober = Prober(path, Plan(Fraction(10), 1, Fraction(1)), path, BEGIN)
    seen = [(sample.index, path.now_ns() - BEGIN) for sample in prober.samples()]
    assert [index for index, _ in seen] == list(range(10))
    at = [ms / MS for _, ms in seen]
    assert at[:3] == [250, 250, 250]
    assert at[3:] == [305, 405, 505, 605, 705, 805, 905]


def test_a_machine_that_stops_for_seconds_misses_samples_and_sends_no_burst():
    path = RecordedPath(
        lambda key: 5 * MS, lambda until_ns: 3550 * MS if until_ns == BEGIN + 2000 * MS else 0
    )
    samples = samples_of(path, Plan(Fraction(1), 10, Fraction(10)))
    # It slept from 2 s to 5.55 s: samples 2 to 4 are over, that of 5 s can still be asked.
    assert [sample.index for sample in samples if sample.missed] == [2, 3, 4]
    assert [len(sample.rtts_ns) for sample in samples] == [10, 10, 0, 0, 0, 10, 10, 10, 10, 10]
    assert samples[5].late_ns == 550 * MS
    assert all(sample.lost == 0 for sample in samples)
    assert all(sample.at_ns == BEGIN + sample.index * 10**9 for sample in samples)


def test_what_is_lost_at_the_end_is_waited_for_no_longer_than_the_timeout():
    path = RecordedPath(lambda key: None)
    plan = Plan(Fraction(1), 1, Fraction(1), timeout_s=Fraction(1, 2))
    (sample,) = samples_of(path, plan)
    assert sample.lost == 1
    assert path.now_ns() == BEGIN + 500 * MS


def test_a_slow_rate_does_not_hold_back_a_lost_sample():
    path = RecordedPath(lambda key: None)
    plan = Plan(Fraction(1, 10), 1, Fraction(20), timeout_s=Fraction(1, 3))
    next(Prober(path, plan, path, BEGIN).samples())
    assert path.now_ns() == BEGIN + plan.timeout_ns


def test_samples_know_the_segment_of_the_pattern_that_repeats():
    path = RecordedPath(lambda key: MS)
    plan = Plan(Fraction(2), 1, Fraction(8))
    samples = samples_of(path, plan, pattern=Pattern.parse("c1-S1-b2"))
    cycle = ["C1"] * 2 + ["S1"] * 2 + ["B2"] * 4
    assert [sample.segment for sample in samples] == cycle + cycle


def test_it_ends_when_it_is_stopped():
    path = RecordedPath(lambda key: MS)
    over = BEGIN + 3500 * MS
    assert len(samples_of(path, Plan(seconds=None), stopped=lambda: path.now_ns() >= over)) == 4


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"rate_hz": Fraction(101)}, "101 Hz: 1/60 to 100"),
        ({"rate_hz": Fraction(0)}, "0 Hz"),
        ({"rate_hz": Fraction(1, 61)}, "1/60"),
        ({"requests": 0}, "0 requests"),
        ({"requests": 101}, "101 requests"),
        ({"rate_hz": Fraction(100), "requests": 11}, "at this rate 10 do"),
        ({"seconds": Fraction(-1)}, "-1 seconds"),
        ({"timeout_s": Fraction(11)}, "timeout of 11 s"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(choices, told):
    with pytest.raises(BadInput, match=told):
        Plan(**choices)


@given(st.fractions(Fraction(1, 60), 100), st.integers(1, 100))
def test_requests_of_any_plan_follow_one_another_within_their_sample(rate, count):
    try:
        plan = Plan(rate, count, 5 / rate)
    except BadInput:
        assert (count - 1) * MS >= int(10**9 / rate)
        return
    requests = list(plan.requests_in_time())
    assert len(requests) == 5 * count
    due = [request.due_ns for request in requests]
    assert due == sorted(set(due))
    assert all(request.due_ns < request.end_ns for request in requests)
