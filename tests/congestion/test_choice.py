"""The choice: against worked examples, the work's own rule, and what must hold for any table."""

import json
import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.training.interaction import Pairing, meet
from weir.congestion.choice import Interaction, Meeting, Wanted, choose, one_level_tree
from weir.congestion.choice.known import Echoes
from weir.congestion.choice.reach import Reach, max_min
from weir.congestion.classify.recogniser import Recogniser
from weir.congestion.path import PathState
from weir.errors import BadInput

# Table 6.3 of 001-spec, shares of 500 Mbit/s: own and the background's, by background and control.
PRINTED = {
    ("C", "cubic"): (0.508, 0.53),
    ("C", "bbr"): (0.948, 0.124),
    ("B", "cubic"): (0.098, 0.93),
    ("B", "bbr"): (0.516, 0.56),
}


def table(rows, **path):
    path = {"rate_bps": 5e8, "rtt_s": 0.065, "queue_bdp": 1.5} | path
    meetings = [
        Meeting(background, control, own=own, others=(other,), **path)
        for (background, control), (own, other) in rows.items()
    ]
    return Interaction(meetings, {})


def seen(known=True, **probabilities):
    bbr = probabilities.get("B", 0.0)
    return SimpleNamespace(probabilities=probabilities, bbr=bbr, known=known, why="it looks so")


def jain(*rates):
    return sum(rates) ** 2 / len(rates) / sum(rate**2 for rate in rates)


def chosen(recognised, current="cubic", offered=("bbr", "cubic"), rows=PRINTED, **wanted):
    return choose(recognised, offered, current, Wanted(**wanted), table(rows)).control


@pytest.mark.parametrize("current", ["cubic", "bbr"])
def test_with_the_works_own_figures_it_is_the_works_own_rule(current):
    for recognised in (seen(B=1.0), seen(C=1.0)):
        assert chosen(recognised, current) == one_level_tree(recognised).control


def test_without_fairness_it_takes_what_gets_most():
    assert chosen(seen(B=1.0), fairness=0) == "bbr"
    assert chosen(seen(C=1.0), fairness=0) == "bbr"


def test_fairness_turns_where_the_logarithms_say():
    """Beside CUBIC: what CUBIC loses of goodput against what it gains in Jain's index, by hand."""
    loss = math.log(0.948 / 0.508)
    gain = math.log(jain(0.508, 0.53) / jain(0.948, 0.124))
    turn = (loss + math.log(1.03)) / (loss + gain)  # f gain - (1 - f) loss = ln 1.03
    assert 0 < turn < 1
    assert chosen(seen(C=1.0), "bbr", fairness=turn - 0.01) == "bbr"
    assert chosen(seen(C=1.0), "bbr", fairness=turn + 0.01) == "cubic"


def test_doubt_is_weighed():
    """The probability of BBR at which the expected worth of both is alike, by hand."""

    def worth(background, control):
        own, other = PRINTED[background, control]
        return 0.2 * math.log(own) + 0.8 * math.log(jain(own, other))

    gain = worth("B", "bbr") - worth("B", "cubic")
    loss = worth("C", "cubic") - worth("C", "bbr")
    # p gain - (1 - p) loss = ln 1.03
    turn = (loss + math.log(1.03)) / (gain + loss)
    for off, expected in ((-0.02, "cubic"), (0.02, "bbr")):
        assert chosen(seen(B=turn + off, C=1 - turn - off), fairness=0.8) == expected


def test_beside_bbr_and_cubic_it_is_bbr_as_in_the_work():
    """Neither is fair there: BBR leaves CUBIC nothing, CUBIC gets nothing itself, the worse."""
    label = "B1-C1"
    both = SimpleNamespace(probabilities={label: 1.0}, bbr=1.0, known=True, why="it looks so")
    for current in ("bbr", "cubic"):
        assert choose(both, ["bbr", "cubic"], current, Wanted()).control == "bbr"
    assert one_level_tree(both).control == "bbr"


def test_beside_nobody_it_is_cubic_whatever_was_in_use():
    """Whom one's own BBR has squeezed is not to be seen for a while, and must not be again."""
    nobody = SimpleNamespace(probabilities={"B0-C0": 0.95}, bbr=0.0, known=True, why="it looks so")
    for current in ("bbr", "cubic"):
        assert choose(nobody, ["bbr", "cubic"], current, Wanted()).control == "cubic"


@pytest.mark.parametrize(("more", "control"), [(1.02, "cubic"), (1.04, "bbr")])
@pytest.mark.parametrize("current", ["bbr", "cubic"])
def test_beside_nobody_bbr_has_to_get_more_by_three_hundredths(current, more, control):
    alone = [
        Meeting("B0-C0", name, 1e7, 0.005, 0.5, own, ())
        for name, own in (("bbr", 0.9 * more), ("cubic", 0.9))
    ]
    nobody = SimpleNamespace(probabilities={"B0-C0": 1.0}, bbr=0.0, known=True, why="it looks so")
    found = choose(nobody, ["bbr", "cubic"], current, Wanted(), Interaction(alone, {}))
    assert found.control == control


def meetings_of(worths):
    """On two paths, 10 and 100 Mbit/s; what CUBIC and BBR get beside one other, on each."""
    return Interaction(
        [
            Meeting("X", control, rate, 0.05, depth, own, (1 - own,))
            for rate, owns in worths.items()
            for control, own in owns.items()
            for depth in (1.0, 2.0)
        ],
        {},
    )


def test_what_is_known_of_the_path_decides_which_meetings_count():
    """Slow paths are fair under CUBIC, fast ones under BBR; a path has what we had at least."""
    table = meetings_of({1e7: {"cubic": 0.5, "bbr": 0.9}, 1e8: {"cubic": 0.2, "bbr": 0.5}})
    for known, control in (
        ({"use": "shared", "full_bps": 1e7}, "cubic"),
        ({"use": "ours", "full_bps": 1e7}, "cubic"),
        ({"use": "shared", "full_bps": 6e7}, "bbr"),
    ):
        path = PathState(rtt_s=0.05, goodput_bps=5e6, **known)
        choice = choose(seen(X=1.0), ("bbr", "cubic"), "cubic", Wanted(), table, path)
        assert choice.control == control, known
        assert "counts as" not in choice.why


def test_what_is_beyond_the_table_is_said():
    table = meetings_of({1e7: {"cubic": 0.5, "bbr": 0.9}, 1e8: {"cubic": 0.2, "bbr": 0.5}})
    path = PathState("ours", 0.05, goodput_bps=9e8, full_bps=9e8)
    choice = choose(
        seen(X=1.0), ("bbr", "cubic"), "cubic", Wanted(), table, path, None, Echoes(0.04, 0.04)
    )
    assert choice.control == "bbr"
    assert choice.why.endswith(
        "(a rate of 900 Mbit/s counts as 100 Mbit/s; a round trip of 40 ms counts as 50 ms)"
    )


def test_what_is_hardly_better_is_not_worth_a_change():
    near = {("C", "cubic"): (0.50, 0.50), ("C", "bbr"): (0.51, 0.50), ("C", "reno"): (0.52, 0.50)}
    offered = ("bbr", "cubic", "reno")
    assert chosen(seen(C=1.0), "cubic", ("bbr", "cubic"), near, fairness=0) == "cubic"
    assert chosen(seen(C=1.0), "cubic", offered, near, fairness=0) == "reno"
    assert chosen(seen(C=1.0), "bbr", offered, near, fairness=0) == "bbr"


def test_what_is_not_in_use_has_to_be_in_time_by_a_tenth():
    """CUBIC is expected to get 0.508 beside CUBIC, BBR 0.948."""
    for share, current, expected in (
        (0.50, "cubic", "cubic"),
        (0.51, "cubic", "bbr"),
        (0.50, "bbr", "bbr"),
        (0.46, "bbr", "cubic"),
    ):
        assert chosen(seen(C=1.0), current, share=share, fairness=1.0) == expected
    late = choose(seen(C=1.0), ["bbr", "cubic"], "cubic", Wanted(share=0.6), table(PRINTED))
    assert late.why.endswith("where the deadline takes 0.60 of the path's rate")


def test_a_deadline_goes_before_fairness_and_fairness_before_more_than_it_needs():
    assert chosen(seen(C=1.0), share=0.4) == "cubic"
    assert chosen(seen(C=1.0), share=0.6) == "bbr"
    # Nothing is in time: the least late.
    assert chosen(seen(B=1.0), share=0.99, fairness=0) == "bbr"


@pytest.mark.parametrize(
    ("recognised", "said"),
    [
        (seen(known=False, B=1.0), "it looks so: reno is kept"),
        (seen(elsewhere=1.0), "beside which nothing was measured: reno is kept"),
    ],
)
def test_in_the_dark_the_control_in_use_is_kept(recognised, said):
    choice = choose(recognised, ["bbr", "cubic"], "reno", Wanted(), table(PRINTED))
    assert (choice.control, choice.expected) == ("reno", {})
    assert said in choice.why


@pytest.mark.parametrize(
    ("current", "offered", "fallback", "control"),
    [
        ("cubic", ("bbr", "cubic"), None, "cubic"),
        ("bbr", ("bbr", "cubic", "reno"), None, "cubic"),
        ("bbr", ("bbr", "reno"), None, "reno"),
        ("bbr", ("bbr",), None, "bbr"),  # there is nothing else
        ("bbr", ("bbr", "cubic"), "bbr", "bbr"),  # it is wanted in doubt
        ("bbr", ("bbr", "cubic"), "reno", "cubic"),  # which is not offered
        ("cubic", ("bbr", "cubic"), "bbr", "cubic"),  # nor is it taken again
    ],
)
@pytest.mark.parametrize("recognised", [seen(known=False, B=1.0), seen(elsewhere=1.0)])
def test_in_the_dark_no_bbr_is_kept(recognised, current, offered, fallback, control):
    """It was taken for a path that nobody was on, and somebody unknown may have come."""
    choice = choose(
        recognised, iter(offered), current, Wanted(), table(PRINTED), lossy(1e-3), fallback
    )
    assert choice.control == control
    said = f"{control} harms least" if control != current else f"{control} is kept"
    assert said in choice.why


def test_only_what_the_host_offers_is_chosen():
    assert chosen(seen(B=1.0), offered=["cubic"]) == "cubic"


shares = st.floats(0.01, 1.0)


@given(
    rows=st.lists(st.tuples(shares, shares), min_size=2, max_size=4),
    fairness=st.floats(0, 1),
    current=st.integers(0, 3),
)
def test_the_best_is_taken_up_to_the_margin(rows, fairness, current):
    """By enumeration: nothing offered is worth more than the margin above what is chosen."""
    controls = [f"c{number}" for number in range(len(rows))]
    now = controls[current % len(controls)]
    met = {("X", control): pair for control, pair in zip(controls, rows, strict=True)}
    worth = {
        control: (1 - fairness) * math.log(own) + fairness * math.log(jain(own, other))
        for (_, control), (own, other) in met.items()
    }
    found = chosen(seen(X=1.0), now, controls, met, fairness=fairness)
    best = max(worth.values())
    if found == now:
        assert worth[now] >= best - math.log(1.03) - 1e-9
    else:
        assert worth[found] >= best - 1e-9
        assert best > worth[now] + math.log(1.03) - 1e-9


def test_jains_index_and_shares_of_the_works_table():
    """Recomputed in 001-spec 6.6: 0.629 and 0.604."""
    found = table(PRINTED)
    assert found.of("C", "bbr")[0].jain == pytest.approx(0.629, abs=0.001)
    assert found.of("B", "cubic")[0].jain == pytest.approx(0.604, abs=0.002)
    assert found.of("C", "bbr")[0].of_fair == pytest.approx(2 * 0.948)


@pytest.mark.parametrize("wanted", [{"fairness": 1.5}, {"fairness": -1}, {"share": -0.1}])
def test_wants_out_of_their_domain_are_refused(wanted):
    with pytest.raises(BadInput):
        Wanted(**wanted)


def test_the_shipped_table_is_what_the_simulator_says():
    for pairing in (
        Pairing("B1-C0", "cubic", 10_000_000, 0.02, 0.5),
        Pairing("Cn", "bbr", 32_000_000, 0.065, 2.0),
    ):
        found = Interaction.shipped().of(pairing.background, pairing.control)
        assert meet(pairing) in found


def test_the_shipped_table_knows_every_background_of_the_shipped_recogniser():
    assert Interaction.shipped().backgrounds >= set(Recogniser.shipped().labels)


def test_beside_a_shallow_queue_the_shipped_table_is_the_works_matrix():
    """Figure 6.7 of 001-spec: one stream's throughput and fairness beside another."""
    for background, control, throughput, fairness in (
        ("B1-C0", "bbr", True, True),
        ("B1-C0", "cubic", False, False),
        ("B0-C1", "bbr", True, False),
        ("B0-C1", "cubic", True, True),
    ):
        for meeting in Interaction.shipped().of(background, control):
            is_long = meeting.rate_bps == 1e8 and 0.02 <= meeting.rtt_s <= 0.15
            if meeting.queue_bdp == 0.5 and is_long:
                assert (meeting.of_fair > 0.5) == throughput, meeting
                assert (meeting.jain > 0.8) == fairness, meeting


def test_a_table_is_read_as_it_was_written(tmp_path):
    shipped = Interaction.shipped()
    shipped.save(tmp_path / "table.json")
    again = Interaction.load(tmp_path / "table.json")
    assert again.provenance == shipped.provenance
    for background in shipped.backgrounds:
        for control in shipped.controls:
            assert again.of(background, control) == shipped.of(background, control)


ROW = ["C", "bbr", 1e8, 0.1, 1.0, 0.5, [0.4], 1]


def written(*rows):
    return json.dumps({"format": 2, "provenance": {}, "meetings": rows})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "not an interaction table"),
        ("{", "not an interaction table"),
        ('{"format": 1, "meetings": []}', "has format 1, this Weir reads 2"),
        ('{"format": 3}', "has format 3, this Weir reads 2"),
        (written([]), "not an interaction table"),
        (written({"background": "C"}), "not an interaction table"),
        (written([*ROW[:5], -1, *ROW[6:]]), "not a rate, a time, a depth or shares"),
        (written([*ROW[:2], 0, *ROW[3:]]), "a path of no rate, time or depth"),
        (written([*ROW[:6], 3, 1]), "not an interaction table"),
    ],
)
def test_what_is_no_table_is_refused_by_name(tmp_path, text, told):
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=told):
        Interaction.load(path)
    with pytest.raises(BadInput, match=r"none\.json: No such file"):
        Interaction.load(tmp_path / "none.json")


def lossy(loss, use="room", full_bps=480e6, **known):
    """500 Mbit/s and 65 ms, of which so many packets are lost at random."""
    packets = 10**6
    lost = round(loss * packets)
    return PathState(
        use,
        0.065,
        full_bps=full_bps,
        **{"goodput_bps": 60e6, "delivered": packets, "lost": lost, "loss_events": lost} | known,
    )


def shipped(path, current="cubic", offered=("bbr", "cubic", "reno"), **probabilities):
    recognised = seen(**{name.replace("_", "-"): p for name, p in probabilities.items()})
    return choose(recognised, offered, current, Wanted(), path=path)


@pytest.mark.parametrize(
    ("loss", "use", "control"),
    [(0, "ours", "cubic"), (1e-8, "ours", "cubic"), (1e-4, "ours", "cubic")]
    + [(loss, "room", "bbr") for loss in (0, 1e-5, 1e-4, 1e-3, 1e-2)],
)
def test_alone_it_is_what_the_path_lets_go_fastest(loss, use, control):
    assert shipped(lossy(loss, use), B0_C0=1.0).control == control


def test_a_path_that_never_was_full_may_have_any_rate():
    assert shipped(lossy(0, full_bps=None), B0_C0=1.0).control == "bbr"


def test_where_loss_bounds_nobody_the_others_count_as_without():
    path = lossy(1e-8, "shared")
    for background in ("B0_C1", "B1_C0", "Cn", "R1"):
        expected = choose(
            seen(**{background.replace("_", "-"): 1.0}), ("bbr", "cubic"), "cubic", Wanted()
        )
        assert shipped(path, **{background: 1.0}).control == expected.control


def test_what_others_lose_by_the_path_alone_is_there_to_be_taken():
    """One CUBIC beside ours at 0.01 %: each can use 24 of 480 Mbit/s, and BBR the rest."""
    choice = shipped(lossy(1e-4, "shared"), B0_C1=1.0)
    assert choice.control == "bbr"
    assert choice.expected["bbr"].jain > 0.99
    assert choice.expected["cubic"].own == pytest.approx(24.2 / 480, rel=0.02)
    # By max-min fairness it has a twentieth of what it could have, the other all of that.
    part = 24.2 / (480 - 24.2)
    assert choice.expected["cubic"].jain == pytest.approx(jain(part, 1.0), rel=0.01)


def test_shares_by_max_min_fairness():
    """Worked by hand: who can use little has it, the others share the rest alike."""
    assert max_min([1, 1]) == [0.5, 0.5]
    assert max_min([1, 0.1, 1]) == pytest.approx([0.45, 0.1, 0.45])
    assert max_min([0.2, 0.1]) == [0.2, 0.1]
    assert max_min([1]) == [1]


@given(
    loss=st.sampled_from([0, 1e-6, 1e-4, 1e-2, 0.3]),
    use=st.sampled_from(["room", "ours", "shared", None]),
    full_bps=st.sampled_from([None, 1e7, 5e8]),
    offered=st.sets(st.sampled_from(["bbr", "cubic", "reno", "vegas"])),
    current=st.sampled_from(["bbr", "cubic", "reno", "vegas"]),
    background=st.sampled_from(["B0_C0", "B0_C1", "B1_C1", "Cn", "app"]),
)
def test_on_no_path_it_is_a_control_that_the_host_does_not_offer(
    loss, use, full_bps, offered, current, background
):
    path = lossy(loss, use, full_bps)
    choice = shipped(path, current, offered, **{background: 1.0})
    assert choice.control in offered | {current}
    for found in choice.expected.values():
        assert 0 <= found.own <= 1
        assert 0 < found.jain <= 1 + 1e-9


@given(loss=st.floats(0, 0.1), more=st.floats(0, 0.1), background=st.sampled_from(["B0_C0", "Cn"]))
def test_more_loss_never_makes_a_loss_based_control_faster(loss, more, background):
    less, lossier = (
        shipped(lossy(one, "shared"), **{background: 1.0}).expected["cubic"].own
        for one in sorted((loss, more))
    )
    assert lossier <= less


@pytest.mark.parametrize("use", [None, "shared"])
def test_what_others_make_overflow_is_no_loss_of_the_path(use):
    """Four BBR that squeeze a CUBIC: most of what little it sends is lost."""
    assert shipped(lossy(0.4, use), Bn=0.7, B1_B1=0.3).control == "bbr"
    assert shipped(lossy(0.4, use), Cn=1.0).control == "cubic"


SIXTEEN = PathState("room", 0.0617, goodput_bps=1.39e6, delivered=1_260, lost=15, loss_events=15)
"""Beside sixteen CUBIC of 40 Mbit/s and 30 ms, as the kernel's counters tell it: of 15 losses each
is of a full queue, which the stream's smoothed round trip does not show."""


@pytest.mark.parametrize(
    ("echoes", "control"),
    [(None, "bbr"), (Echoes(0.0651, 0.0658), "bbr"), (Echoes(0.0651, 0.0711), "cubic")],
)
def test_where_echoes_wait_in_a_queue_others_fill_it_whatever_the_path_loses(echoes, control):
    """Where none does loss-based streams are bounded, and what they leave is there to be taken."""
    for background in ("Cn", "C1-C1", "R1"):
        recognised, offered = seen(**{background: 1.0}), ("bbr", "cubic")
        choice = choose(recognised, offered, "cubic", Wanted(), path=SIXTEEN, echoes=echoes)
        assert choice.control == control, background


def test_on_an_unknown_path_its_losses_change_nothing():
    recognised = seen(known=False, B=1.0)
    for current in ("cubic", "bbr"):
        choice = choose(recognised, ("bbr", "cubic"), current, Wanted(), path=lossy(1e-3))
        assert choice.control == "cubic"


def late(background, control):
    """One's own stream has a fifth of what another has, since it came late."""
    row = Meeting(background, control, 1e8, 0.1, 1.0, 0.15, (0.75,))
    return Reach(None, "").outcome(row)


def test_that_a_stream_comes_late_among_its_like_is_no_unfairness_of_its_control():
    for background in ("B0-C1", "R1"):
        assert late(background, "cubic").settled == pytest.approx(1)
        assert late(background, "cubic").jain == pytest.approx(jain(0.15, 0.75))
    for background, control in (("B1-C0", "cubic"), ("B0-C1", "bbr"), ("app", "cubic")):
        outcome = late(background, control)
        assert outcome.settled == outcome.jain == pytest.approx(jain(0.15, 0.75))


def test_who_has_more_than_a_share_among_its_like_is_not_excused():
    row = Meeting("R1", "cubic", 1e8, 0.1, 1.0, 0.75, (0.15,))
    outcome = Reach(None, "").outcome(row)
    assert outcome.settled == outcome.jain == pytest.approx(jain(0.15, 0.75))


def test_of_several_others_each_gives_alike():
    """By hand: 0.1 beside 0.6 and 0.2 becomes 0.3 beside 0.45 and 0.15."""
    row = Meeting("C1-C1", "cubic", 1e8, 0.1, 1.0, 0.1, (0.6, 0.2))
    assert Reach(None, "").outcome(row).settled == pytest.approx(jain(0.3, 0.45, 0.15))
