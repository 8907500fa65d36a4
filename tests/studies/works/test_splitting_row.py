"""Row 003-own-2.10-splitting: true acknowledgements on the paths of a study of splitting."""

from studies.works.row import Verdict
from studies.works.w003.ch2_splitting import (
    ALONE,
    PATHS,
    RELAYED,
    RELAYED_BEFORE,
    ROWS,
    SPLIT,
    SWITCHED,
    SWITCHED_BEFORE,
    goodput,
)

(ROW,) = ROWS


def results(before_mbit_s=9.6, ahead_bytes=0):
    rates = {ALONE: 2.0, SPLIT: 10.0, SWITCHED: 6.0, SWITCHED_BEFORE: 7.0}
    rates |= {RELAYED: 8.0, RELAYED_BEFORE: before_mbit_s}
    return [
        {"mbit_s": rates[point.arguments["way"]], "ahead_bytes": ahead_bytes}
        for point in ROW.points(True)
    ]


def test_the_row_matches_where_strict_mode_keeps_up_and_tells_nothing_untrue():
    assert ROW.judge(results()).verdict == Verdict.MATCHES
    short = ROW.judge(results(before_mbit_s=9.4))
    assert short.verdict == Verdict.DIFFERS
    assert "bbr3 on 40/40 ms, 2/2 %, 40 Mbit/s 0.94" in short.reason
    assert ROW.judge(results(ahead_bytes=1)).verdict == Verdict.DIFFERS


def test_splitting_mends_what_losses_cost_and_strict_tells_nothing_untrue():
    ways = (ALONE, SPLIT, SWITCHED, SWITCHED_BEFORE, RELAYED, RELAYED_BEFORE)
    found = {way: goodput(path=0, control="cubic", way=way, seconds=30, seed=3) for way in ways}
    # Mathis et al. 1997 with an acknowledgement for every second segment: sqrt(3 / 4p), at most
    # twice that; the first round trip is of 202 ms, the second one of the near segment.
    foreseen = 1448 * 8 / 0.202 * (0.75 / 0.04) ** 0.5 / 1e6
    assert 0.5 * foreseen < found[ALONE]["mbit_s"] < 2 * foreseen
    assert found[SPLIT]["mbit_s"] > 10 * found[ALONE]["mbit_s"]
    assert found[SPLIT]["ahead_bytes"] > 0
    assert [found[way]["ahead_bytes"] for way in ways[2:]] == [0] * 4
    # The near segment's losses are between the relays, and the aggregate is told of them at once.
    assert found[RELAYED_BEFORE]["mbit_s"] > 5 * found[SWITCHED_BEFORE]["mbit_s"]


def test_the_paths_are_the_published_ones():
    assert [str(path) for path in PATHS] == [
        "100/1 ms, 0/4 %, 20 Mbit/s",
        "100/1 ms, 2/2 %, 20 Mbit/s",
        "40/40 ms, 2/2 %, 40 Mbit/s",
    ]
    # 160 ms at 40 Mbit/s.
    assert PATHS[2].queue_bytes() == 800_000
