"""What a path does, told from TCP_INFO: recordings of the kernel's, and worked examples.

The recordings are of one transfer under CUBIC in labs of 100 Mbit/s (200 Mbit/s where 150 ms are
said) and 65 ms where no others are said; what else was on the link is what the lab was told.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weir.congestion.path import PathReader

RECORDED = json.loads(Path(__file__).with_name("kernel_paths.json").read_text())
COLUMNS = RECORDED.pop("columns")


def info(**told):
    """What `parse_tcp_info` makes of one look at one connection."""
    return SimpleNamespace(
        srtt_ns=1000 * told["srtt_us"],
        min_rtt_ns=1000 * told["min_rtt_us"],
        mss_bytes=1448,
        delivered_packets=told["delivered"],
        retransmitted_packets=told["sent_again"],
        in_flight_packets=told["in_flight"],
        recovering=bool(told["recovering"]),
        starting=bool(told["starting"]),
        peer_limited_ns=10**6 * told["peer_limited_ms"],
        unsent_bytes=told["unsent"],
    )


def states(name):
    """What was known after each look of a recording."""
    reader = PathReader()
    for row in RECORDED[name]:
        look = dict(zip(COLUMNS, row, strict=True))
        reader.sees(look["at_s"], [info(**look)])
        yield look["at_s"], reader.state


def uses(name):
    """The uses of a recording in order, each once."""
    seen = [state.use for _, state in states(name) if state and state.use]
    return list(dict.fromkeys(seen))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("random loss", ["room"]),
        ("random loss, 5 ms", ["room"]),
        ("cubic, random loss", ["room"]),
        ("nobody", ["ours"]),
        ("nobody, 150 ms", ["ours"]),
        ("cubic", ["shared"]),
        ("two of cubic", ["shared"]),
        ("bbr", ["shared"]),
    ],
)
def test_it_is_told_from_the_kernels_counters_whose_queue_stands(name, expected):
    assert uses(name) == expected


def test_a_queue_too_short_to_be_told_is_not_taken_for_room():
    """A fifth of a bandwidth-delay product beside one CUBIC: whatever it says, no room."""
    assert "room" not in uses("cubic, short queue")


@pytest.mark.parametrize("name", ["random loss", "nobody", "cubic", "bbr"])
def test_it_is_known_within_some_seconds(name):
    assert next(at_s for at_s, state in states(name) if state and state.use) < 3.5


def test_losses_without_a_queue_are_the_paths_own():
    *_, (_, state) = states("random loss")
    # One packet in 2000 is lost on that link.
    assert 0.2e-3 < state.loss < 1.5e-3
    assert state.lost >= state.loss_events > 0
    assert state.rtt_s == pytest.approx(0.065, abs=0.001)
    assert state.full_bps == pytest.approx(96.5e6, rel=0.03)  # of 100 Mbit/s, without headers


@pytest.mark.parametrize("name", ["nobody", "nobody, 150 ms", "cubic", "bbr"])
def test_what_overflows_is_no_loss_of_the_paths(name):
    """These links lose nothing else, and each recording has seen an overflow, or nothing."""
    *_, (_, state) = states(name)
    assert state.lost == 0


@pytest.mark.parametrize("name", ["nobody", "cubic"])
def test_a_full_queue_takes_as_long_whoever_fills_it(name):
    """Alone the round trip of the empty path was seen; beside CUBIC the queue never emptied."""
    *_, (_, state) = states(name)
    assert state.rtt_s + state.queue_s == pytest.approx(0.166, rel=0.01)
    assert state.overflows > 10


def test_what_was_had_at_best_is_no_more_than_the_path_has():
    for name in RECORDED:
        *_, (_, state) = states(name)
        rate_bps = 200e6 if "150 ms" in name else 100e6
        assert max(state.goodput_bps, state.full_bps or 0) <= state.best_bps <= 1.01 * rate_bps


def looks(seconds, rate_pps, srtt_ms=65.0, **told):
    """Looks 20 times a second at a connection that goes evenly."""
    for number in range(round(20 * seconds)):
        at_s = number / 20
        yield (
            at_s,
            {
                "srtt_us": round(1000 * srtt_ms),
                "min_rtt_us": 65_000,
                "delivered": round(at_s * rate_pps),
                "sent_again": 0,
                "in_flight": round(rate_pps * srtt_ms / 1000),
                "recovering": 0,
                "starting": 0,
                "peer_limited_ms": 0,
                "unsent": 1 << 20,
            }
            | {name: value(at_s) for name, value in told.items()},
        )


def use(shown):
    reader = PathReader()
    for at_s, look in shown:
        reader.sees(at_s, [info(**look)])
    return reader.state.use


def test_an_even_rate_without_a_queue_is_room():
    assert use(looks(3, 1000)) == "room"


def test_a_queue_that_stood_once_is_not_held_against_the_path_for_ever():
    """Noise on a path of ours; who fills a queue does so again and again."""
    told = {
        "delivered": lambda at_s: round(3000 * min(at_s, 2) + 1000 * max(0, at_s - 2)),
        "srtt_us": lambda at_s: 80_000 if 4.0 <= at_s < 4.18 else 65_000,
    }
    assert use(looks(6, 0, **told)) == "shared"
    assert use(looks(12, 0, **told)) == "room"


def test_a_burst_that_waits_for_itself_does_not_fill_the_path():
    burst = looks(3, 1000, srtt_us=lambda at_s: 80_000 if 0.5 <= at_s < 0.6 else 65_000)
    assert use(burst) == "room"


def test_what_the_receivers_window_holds_up_is_not_the_paths_doing():
    assert use(looks(3, 1000, peer_limited_ms=lambda at_s: round(900 * at_s))) is None


def test_what_the_source_does_not_give_is_not_the_paths_doing():
    assert use(looks(3, 1000, unsent=lambda _: 0)) is None


def test_how_little_small_files_take_shows_nobody():
    """At 2 s large files end; of small ones acknowledgements are late, and the stream waits."""
    told = {
        "delivered": lambda at_s: round(3000 * min(at_s, 2) + 1000 * max(0, at_s - 2)),
        "srtt_us": lambda at_s: 65_000 if at_s < 2 else 80_000,
    }
    assert use(looks(4, 0, **told)) == "shared"
    waits = {"unsent": lambda at_s: 0 if at_s > 2 and round(20 * at_s) % 4 else 1 << 20}
    assert use(looks(4, 0, **told, **waits)) is None


def test_how_much_small_files_take_does_not_fill_the_path():
    assert use(looks(3, 1000, srtt_ms=80)) == "ours"
    assert use(looks(3, 1000, srtt_ms=80, unsent=lambda _: 0)) is None


@pytest.mark.parametrize(
    ("told", "is_held"),
    [
        ({}, False),
        ({"unsent": lambda _: 0}, True),
        ({"unsent": lambda at_s: 0 if at_s < 2 else 1 << 20}, False),
        ({"unsent": lambda at_s: 0 if at_s > 2 else 1 << 20}, True),
        ({"peer_limited_ms": lambda at_s: round(900 * at_s)}, True),
    ],
)
def test_what_holds_us_up_and_is_not_the_path_is_told(told, is_held):
    reader = PathReader()
    assert not reader.is_held
    for at_s, look in looks(3, 1000, **told):
        reader.sees(at_s, [info(**look)])
    assert reader.is_held is is_held


@pytest.mark.parametrize("name", RECORDED)
def test_a_file_that_the_path_limits_is_not_held_once_it_has_begun(name):
    """The receiver opens its window in the first two seconds."""
    reader = PathReader()
    for row in RECORDED[name]:
        look = dict(zip(COLUMNS, row, strict=True))
        reader.sees(look["at_s"], [info(**look)])
        assert not (reader.is_held and look["at_s"] > 2.5)


def test_a_rate_that_still_grows_says_nothing():
    assert use(looks(3, 1000, delivered=lambda at_s: round(100 * 2 ** (3 * at_s)))) is None


def test_the_streams_of_a_transfer_count_together():
    reader = PathReader()
    for at_s, look in looks(3, 500):
        reader.sees(at_s, [info(**look), info(**look)])
    assert reader.state.goodput_bps == pytest.approx(8 * 1448 * 1000, rel=0.01)


def test_other_connections_begin_anew():
    reader = PathReader()
    for at_s, look in looks(3, 1000):
        reader.sees(at_s, [info(**look)])
    assert reader.state.use == "room"
    _, look = next(looks(1, 1000))
    reader.sees(3.0, [info(**look)])
    assert reader.state.use is None


def test_when_more_join_it_is_to_be_seen_what_they_get_and_what_is_known_stays():
    reader = PathReader()
    for at_s, look in looks(3, 1000, sent_again=lambda at_s: round(at_s)):
        reader.sees(at_s, [info(**look)])
    assert (reader.state.use, reader.state.streams) == ("room", 1)
    lost = reader.state.lost
    used = []
    for at_s, look in looks(3, 1000):
        first = info(**look | {"delivered": round(3000 + 1000 * at_s), "sent_again": 3})
        reader.sees(3 + at_s, [first, info(**look)])
        used.append(reader.state.use)
    assert used[:10] == [None] * 10
    assert (reader.state.use, reader.state.streams) == ("room", 2)
    assert reader.state.lost == lost == 3


def test_before_the_first_look_nothing_is_known():
    reader = PathReader()
    assert reader.state is None
    reader.sees(0.0, [])
    assert reader.state is None


_LOOKS = st.lists(
    st.fixed_dictionaries(
        {
            "after_s": st.sampled_from([0.01, 0.05, 0.3, 2.0]),
            "srtt_us": st.sampled_from([0, 1_000, 50_000, 400_000, 10**7]),
            "min_rtt_us": st.sampled_from([0, 1_000, 50_000]),
            "arrived": st.sampled_from([0, 1, 10, 10_000]),
            "sent_again": st.integers(0, 50),
            "in_flight": st.integers(0, 1_000),
            "recovering": st.booleans(),
            "starting": st.booleans(),
            "peer_limited_ms": st.integers(0, 500),
            "unsent": st.sampled_from([0, 10**6]),
            "streams": st.sampled_from([1, 1, 1, 2]),
            "is_new": st.sampled_from([False, False, False, True]),
        }
    ),
    max_size=40,
)


def _still(after_s, arrived, srtt_us=50_000):
    """A look at one connection that starts, in the form that `_LOOKS` has."""
    return {
        "after_s": after_s,
        "srtt_us": srtt_us,
        "min_rtt_us": 1_000,
        "arrived": arrived,
        "sent_again": 0,
        "in_flight": 10,
        "recovering": False,
        "starting": True,
        "peer_limited_ms": 0,
        "unsent": 10**6,
        "streams": 1,
        "is_new": False,
    }


# A reader that was not scheduled for a second: what came then is in no span before a look.
@example([_still(0.01, 0), _still(0.05, 10), *(_still(0.3, 0) for _ in range(20))])
@given(_LOOKS)
def test_whatever_is_seen_and_however_seldom_something_can_be_said_of_the_path(looks):
    reader = PathReader()
    at_s, delivered = 0.0, 0
    for look in looks:
        at_s += look["after_s"]
        delivered = look["arrived"] + (0 if look["is_new"] else delivered)
        reader.sees(at_s, [info(**look, delivered=delivered)] * look["streams"])
        state = reader.state
        assert state is None or state.best_bps >= state.goodput_bps >= 0
