"""FITF and what stands against a value: the work's golden pair, counters that run backwards."""

import io
import math
import tracemalloc

import numpy as np
import pytest

from weir.errors import BadInput
from weir.observe.infiniband import dump, records, report, statistics, waiting
from weir.observe.infiniband.asking import Port
from weir.observe.infiniband.records import ROW
from weir.observe.infiniband.waiting import Reason

MS = 1_000_000


def rounds(*values, gap_ns=100 * MS, took_ns=0, tick_ns=22.0, flags=None, kind="ToR", way="up"):
    """Rows of one round a list of counters, at distances of `gap_ns`."""
    parts = []
    for number, counters in enumerate(values):
        rows = np.zeros(len(counters), ROW)
        rows["kind"], rows["way"] = kind, way
        rows["round_ns"], rows["lid"], rows["port"] = number * 10**12, 7, 3
        rows["asked_ns"] = rows["round_ns"] + np.arange(len(counters)) * gap_ns
        rows["took_ns"], rows["tick_ns"] = took_ns, tick_ns
        rows["wait_ticks"] = counters
        parts.append(rows)
    joined = np.concatenate(parts)
    for index, flag in (flags or {}).items():
        joined["flags"][index] = flag
    return joined


def test_the_golden_pair():
    """Table 2.3 of work 000, by the rounded times that it prints."""
    rows = rounds([2426695474, 2433352285])
    rows["asked_ns"] = [0, 120953793]
    rows["took_ns"] = [18350267, 24841529]
    found = waiting.intervals(rows)
    assert found.fitf == pytest.approx([1.1791507], abs=1e-7)
    # More than one tick of 22 ns can explain: from query to answer pass 145.8 ms, and it is 146.4.
    assert found.beyond.tolist() == [True]
    assert waiting.fitf(6656811, 22, 120953793, (18350267, 24841529)) == found.fitf[0]


def test_values_above_one_are_kept():
    found = waiting.intervals(rounds([0, 5_000_000], took_ns=30 * MS))
    assert found.fitf == pytest.approx([1.1])
    assert found.beyond.tolist() == [False]


@pytest.mark.parametrize(
    ("counters", "reason"),
    [
        ([10, 10], Reason.GOOD),
        ([4_294_900_000, 1_000], Reason.WRAPPED),
        ([10_000_000, 1_000], Reason.RESET),
        ([2_000_000_000, 1_900_000_000], Reason.STEPPED_BACK),
        ([5, 2**32 - 1], Reason.NO_VALUE),
        ([2**32 - 1, 2**32 - 1], Reason.NO_VALUE),
    ],
)
def test_a_counter_that_says_nothing_is_neither_waiting_nor_calm(counters, reason):
    rows = rounds(counters)
    found = waiting.intervals(rows)
    assert found.reason.tolist() == [reason]
    assert math.isnan(found.fitf[0]) == (reason != Reason.GOOD)
    tally = statistics.tallied([rows])["ToR", "up"]
    assert (tally.zero, tally.waiting) == ((1, 0) if reason == Reason.GOOD else (0, 0))
    if reason != Reason.GOOD:
        assert tally.unusable == {reason: 1}


@pytest.mark.parametrize("flag", sorted(records.AGAINST))
def test_a_flagged_answer_spoils_both_pairs_that_it_is_in(flag):
    rows = rounds([0, 0, 0, 0], flags={1: f"{flag}+tick-assumed", 3: "tick-assumed"})
    found = waiting.intervals(rows)
    assert found.reason.tolist() == [Reason.NO_VALUE, Reason.NO_VALUE, Reason.GOOD]


def test_a_round_with_a_missing_query_is_discarded_whole():
    rows = rounds([0, 1, 2, 3], [0, 1, 2, 3], flags={1: "missing"})
    tally = statistics.tallied([rows])["ToR", "up"]
    assert (tally.rounds, tally.discarded, tally.waiting) == (2, 1, 3)


def swept(count=9, ports=3, seed=5):
    """Sweeps of some ports, of one round together: as one table, and port by port."""
    draw = np.random.default_rng(seed)
    rows = rounds(*(np.cumsum(draw.integers(0, 3, count) * 10**6).tolist() for _ in range(ports)))
    rows["round_ns"] = 7
    rows["port"] = np.repeat(np.arange(ports), count)
    rows["flags"][draw.integers(len(rows))] = "clamped"
    rows["flags"][-1] = "missing"
    return rows[np.arange(len(rows)).reshape(ports, count).T.ravel()], rows


def test_sweeps_are_analysed_as_they_come_whatever_the_pieces():
    """What a sweep writes names all ports, then all again; sorted by port it is plain rounds."""
    by_sweep, by_port = swept()
    wanted = statistics.tallied([by_port])
    tally = wanted["ToR", "up"]
    assert (tally.rounds, tally.discarded, len(tally.maxima)) == (3, 1, 2)
    other = by_sweep.copy()
    other["round_ns"] = 8
    for piece in (1, 2, 3, 4, 7, 100):
        cut = [by_sweep[at : at + piece] for at in range(0, len(by_sweep), piece)]
        assert statistics.tallied(cut) == wanted
        twice = np.concatenate([by_sweep, other])
        cut = [twice[at : at + piece] for at in range(0, len(twice), piece)]
        assert statistics.tallied(cut)["ToR", "up"].rounds == 6
        assert statistics.tallied(cut)["ToR", "up"].waiting == 2 * tally.waiting


def test_what_waits_is_the_mean_of_all_pairs_of_sweeps():
    by_sweep, by_port = swept()
    ports = [Port(int(by_port["lid"][0]), number, dump.FDR) for number in range(3)]
    found = report.waited([by_sweep[at : at + 3] for at in range(0, len(by_sweep), 3)], ports)
    pairs = waiting.intervals(by_port)
    for begin, end, number in zip(pairs.starts, pairs.ends, range(3), strict=True):
        (one,) = [one for one in found if one.port.number == number]
        assert one.fitf == pytest.approx(np.nanmean(pairs.fitf[begin:end]))
        assert one.ticks == pytest.approx(np.nansum(pairs.fitf[begin:end]) * 100 * MS / 22)
    assert [one.fitf for one in found] == sorted((one.fitf for one in found), reverse=True)


@pytest.mark.parametrize(
    ("counters", "flags", "why"),
    [
        ([5, 5, 5, 5], {}, ""),
        ([5, 5, 2**32 - 1, 2**32 - 1], {}, "clamped"),
        ([5, 5, 0, 5], {2: "missing"}, "missing"),
        ([5 * 10**9 // 22, 5 * 10**9 // 22, 0, 0], {}, "reset meanwhile"),
        ([2**32 - 9, 2**32 - 9, 7, 7], {}, "went over the counter's end"),
        ([5 * 10**8, 5 * 10**8, 4 * 10**8, 4 * 10**8], {}, "stepped back"),
    ],
)
def test_a_port_that_says_nothing_part_of_the_time_is_not_calm_alone(counters, flags, why):
    """The first two sweeps were calm, and nobody was told that the others said nothing."""
    rows = rounds(counters, flags=flags)
    (one,) = report.waited([rows[at : at + 1] for at in range(4)], [Port(7, 3, dump.FDR)])
    assert (one.fitf, one.reason, one.gaps) == (0, "", why)
    assert report.gaps_told([one]) == ({why: 1} if why else {})
    (none,) = report.waited([rows[2:3], rows[2:3]], [Port(7, 3, dump.FDR)])
    assert none.gaps == ""


def test_sweeps_without_end_take_no_memory():
    """What is kept is one sweep and some sums, whoever counts them."""
    one, _ = swept(count=1, ports=20)
    one["flags"] = ""
    ports = [Port(7, number, dump.FDR) for number in range(20)]

    def sweeps(count):
        for number in range(count):
            one["asked_ns"] += 10**9
            one["wait_ticks"] += number % 2
            yield one.copy()

    def peak(count):
        tracemalloc.reset_peak()
        found = report.waited(sweeps(count), ports)
        tally = statistics.tallied(sweeps(count))["ToR", "up"]
        assert {waited.ticks for waited in found} == {count / 2}
        assert (tally.rounds, tally.waiting) == (20, 20 * count / 2)
        return tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    try:
        peak(10)  # what is kept for ever by those who are called
        few, many = peak(20), peak(200)
    finally:
        tracemalloc.stop()
    assert many - few < 20 * one.nbytes


def test_without_a_tick_nothing_is_said():
    with pytest.raises(BadInput, match="how long a tick takes"):
        waiting.intervals(rounds([0, 1], tick_ns=math.nan))
    assert waiting.intervals(rounds([0, 1], tick_ns=math.nan), 22).fitf[0] > 0


def test_the_tally_by_hand():
    """Three rounds: calm; waiting in two of three intervals; one that waits for all its time."""
    tick = 10**5  # a thousandth of an interval
    rows = rounds([5, 5, 5, 5], [0, 100, 100, 300], [0, 1000, 1000, 1000], tick_ns=float(tick))
    tally = statistics.tallied([rows])["ToR", "up"]
    assert (tally.rounds, tally.zero, tally.waiting, tally.whole) == (3, 6, 3, 1)
    assert tally.maxima == pytest.approx([0.2, 1.0])
    assert tally.means == pytest.approx([0.15, 1.0])
    assert tally.waiting_share == pytest.approx(1 / 3)


def test_boxes_have_the_outliers_of_the_rule():
    values = [0.1, 0.2, 0.3, 0.4, 0.5, 2.0, -3.0]
    found = statistics.box(values)
    # Quartiles of seven values by linear interpolation: the 2.5th, 4th and 5.5th.
    assert (found.q1, found.median, found.q3) == pytest.approx((0.15, 0.3, 0.45))
    assert found.outliers == [-3.0, 2.0]
    assert (found.low, found.high, found.count) == (0.1, 0.5, 7)
    assert statistics.box([]) is None


def test_records_come_back_as_they_were_written_whatever_the_pieces(tmp_path):
    rows = rounds(*([1, 2, 3, 4, 5] for _ in range(7)), flags={3: "clamped+tick-assumed"})
    path = tmp_path / "records.csv"
    with path.open("w") as stream:
        writer = records.Writer(stream)
        writer.write(rows[:11])
        writer.write(rows[11:])
    for piece in (1, 2, 5, 12, 1000):
        pieces = list(records.read(path, piece))
        assert (np.concatenate(pieces) == rows).all()
        assert all(len(one) % 5 == 0 for one in pieces), "pieces end where rounds do"
        assert statistics.tallied(pieces) == statistics.tallied([rows])


def test_the_works_own_files_are_read(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("1,7,3,100,5,2426695474\n1,7,3,120953893,6,2433352285\n")
    (rows,) = records.read(path)
    assert rows["wait_ticks"].tolist() == [2426695474, 2433352285]
    assert np.isnan(rows["tick_ns"]).all()
    path.write_text("Leaf,down,1,7,3,100,5,2426695474\n")
    (rows,) = records.read(path)
    assert rows[["kind", "way"]].tolist() == [("Leaf", "down")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind,way,wait_ticks\n", "lacks round_ns"),
        ("round_ns,lid,port,asked_ns,took_ns,wait_ticks,speed\n", "'speed', which is unknown"),
        ("1,2,3\n", "3 columns"),
        ("1,7,3,100,5,2\n1,7,3,100", "line 2 is cut"),
        ("1,7,3,100,5,much\n", "after line 0: .*much"),
        ("\x00\x01\n", "1 columns"),
    ],
)
def test_what_is_no_table_of_records_is_refused(tmp_path, text, message):
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        list(records.read(path))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadInput, match="No such file"):
        list(records.read(tmp_path / "none.csv"))


def test_a_writer_writes_the_header_first():
    stream = io.StringIO()
    records.Writer(stream)
    assert stream.getvalue().startswith("kind,way,round_ns,lid,port,asked_ns,took_ns,wait_ticks,")
