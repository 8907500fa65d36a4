"""Collecting without a lab: what is asked for, what is watched, what a file keeps."""

import dataclasses
import json
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from studies.rig import bottleneck, watch
from studies.rig.background import ALL_LABELS, Stream, background
from studies.training.collecting import Setting, collect
from studies.training.collecting.recorder import machine_flaws
from studies.training.collecting.settings import Request
from weir.cli import main
from weir.congestion.classify.classes import CLASSES
from weir.congestion.recordings import NetworkPath, Recording, load_whole, save
from weir.errors import BadInput, Unavailable, Unsupported
from weir.lab import parse
from weir.probe import Pattern, Plan

PATH = NetworkPath(500_000_000, 65_000_000, 6 * 2**20, "fifo")
PLAN = Plan(Fraction(20), 1, Fraction(2))
ASKED = Request(
    classes="B0-C0,B1-C0",
    paths=None,
    patterns=None,
    seconds="2",
    runs=2,
    seed=5,
    warmup_s=1,
    rate_hz="20",
    requests=1,
)


def controls(label, seed):
    return Counter(stream.congestion for stream in background(label, PATH, seed))


@pytest.mark.parametrize("mixture", CLASSES, ids=lambda mixture: mixture.label)
def test_the_works_classes_are_their_streams(mixture):
    streams = background(mixture.label, PATH, 1)
    assert [stream.congestion for stream in streams] == list(mixture.controls)
    assert all(stream.is_greedy and stream.start_ns < 10**9 for stream in streams)


def test_further_classes_are_what_their_labels_say():
    for seed in range(40):
        assert controls("R1", seed) == {"reno": 1}
        two = controls("R2", seed)
        assert two.total() == 2
        assert two["reno"] >= 1
        assert not two["bbr"]
        many = controls("Cn", seed)
        assert 3 <= many.total() <= 8
        assert set(many) <= {"cubic", "reno"}
        assert set(controls("Bn", seed)) == {"bbr"}
        assert 3 <= controls("Bn", seed).total() <= 8
        both = controls("Bn-Cn", seed)
        assert both["bbr"] >= 1
        assert both["cubic"] + both["reno"] >= 1
        assert both != {"bbr": 1, "cubic": 1}
    assert {controls("Cn", seed).total() for seed in range(40)} == set(range(3, 9))


def test_what_is_drawn_follows_from_the_seed():
    for label in ALL_LABELS[1:]:
        assert background(label, PATH, 3) == background(label, PATH, 3)
        assert background(label, PATH, 3) != background(label, PATH, 4)


def test_streams_may_be_counted_on_a_path_that_loses_packets():
    streams = background("2 cubic, 1 bbr", PATH, 1)
    assert [one.congestion for one in streams] == ["cubic", "cubic", "bbr"]
    found = parse(bottleneck.scenario("made", PATH, streams, 1, loss=0.0001), "made")
    assert found.links[0].forward.loss != found.links[0].backward.loss
    assert [one.start.ns for one in found.traffic] == [one.start_ns for one in streams]


def test_an_unknown_class_is_refused():
    with pytest.raises(BadInput, match="'B3-C3' is not a background; there are B0-C0, B0-C1"):
        background("B3-C3", PATH, 1)


@pytest.mark.parametrize("label", ALL_LABELS)
def test_the_lab_understands_every_scenario(label):
    odd = dataclasses.replace(PATH, rtt_ns=65_000_001)
    scenario = parse(Setting(label, odd, PLAN, seed=9).scenario(), "made")
    (link,) = scenario.links
    for way in (link.forward, link.backward):
        assert way.rate.bit_per_s == 500_000_000
        assert (way.queue.discipline, way.queue.limit.count) == ("fifo", 6 * 2**20)
    assert link.forward.delay.ns + link.backward.delay.ns == 65_000_001
    assert scenario.seed == 9
    streams = background(label, odd, 9)
    assert [traffic.start.ns for traffic in scenario.traffic] == [one.start_ns for one in streams]


def test_a_limited_application_and_udp_take_their_share_of_the_rate():
    for seed in range(40):
        text = Setting("app", PATH, PLAN, seed=seed).scenario()
        (messages,) = parse(text, "made").traffic
        told = messages.parameters
        share = told["size_bytes"] * 8e9 / told["interval_ns"] / PATH.rate_bps
        assert 0.19 < share < 0.71
        (udp,) = parse(Setting("udp", PATH, PLAN, seed=seed).scenario(), "made").traffic
        assert 1.04 < udp.rate.bit_per_s / PATH.rate_bps < 2.01


# What `ss -tinHO` of iproute2 6.1 prints, shortened: two connections of iperf3 to each port.
SOCKETS = """\
ESTAB 0 0 10.77.0.1:44262 10.77.0.2:20002 bbr wscale:11,11 rto:268 bytes_sent:185 bytes_acked:186
ESTAB 0 1246728 10.77.0.1:44266 10.77.0.2:20002\t cubic wscale:11,11 bytes_acked:17694598 segs:9
ESTAB 0 33965776 10.77.0.1:59984 10.77.0.2:20001 bbr wscale:11,11 bytes_acked:379697494
ESTAB 0 0 10.77.0.1:59978 10.77.0.2:20001\t bbr wscale:11,11 bytes_sent:183 bytes_acked:184
LISTEN 0 10 0.0.0.0:20003 0.0.0.0:* cubic cwnd:10
"""
BBR, CUBIC, UDP = Stream("iperf3", 0, "bbr"), Stream("iperf3", 0, "cubic"), Stream("udp", 0)


def test_sockets_are_found_by_their_port():
    seen = watch.look(7.0, [BBR, CUBIC, CUBIC, UDP], 20_001, SOCKETS, {3: 12_345})
    assert seen.congestion == ("bbr", "cubic", None, None)
    assert seen.delivered_bytes == (379_697_494, 17_694_598, 0, 12_345)


@pytest.mark.parametrize("end", ["minrtt:30.144 snd_wnd:4874240", "minrtt:32 snd_wnd:79872   "])
def test_what_a_line_ends_with_hides_no_socket(end):
    """A whole number of ms and a window look like two addresses."""
    lines = [f"{line} {end}" for line in SOCKETS.splitlines()[:4]]
    found = watch.by_port("\n".join(lines) + "\n")
    assert found == {20_002: (17_694_598, "cubic"), 20_001: (379_697_494, "bbr")}


def looks(*delivered, congestion=("bbr", "cubic"), every_s=5.0):
    """Looks 5 s apart at what each stream had delivered."""
    return [
        watch.Look(every_s * number, congestion, counts) for number, counts in enumerate(delivered)
    ]


def flaws(seen, streams=(BBR, CUBIC), rate_bps=8_000_000):
    return list(watch.flaws(seen, streams, rate_bps))


def test_a_background_that_is_what_it_should_be_has_no_flaw():
    assert flaws(looks((0, 0), (4_000_000, 10), (4_000_000, 20), (8_000_000, 30))) == []
    assert flaws(looks((), (), congestion=()), streams=()) == []


def test_rates_are_of_what_was_delivered_meanwhile():
    assert watch.rates_bps(looks((1_000, 5), (2_000, 5), (11_000, 0))) == (8_000, 0)


def test_a_stream_that_stops_is_a_flaw():
    silent = looks((0, 0), (9_000_000, 7), (12_000_000, 7), (18_000_000, 7))
    assert flaws(silent) == ["stream 1 (cubic) delivered nothing for 10.0 s"]
    # So short a recording that a stream could not be silent for long enough.
    assert flaws(looks((0, 0), (9_000_000, 0))) == ["stream 1 (cubic) delivered nothing for 5.0 s"]


def test_a_stream_under_another_control_or_without_a_connection_is_a_flaw():
    both = looks((0, 0), (9_000_000, 7))
    other = dataclasses.replace(both[1], congestion=("cubic", "cubic"))
    assert flaws([both[0], other]) == ["stream 0 (bbr) was under cubic"]
    gone = dataclasses.replace(both[1], congestion=("bbr", None))
    assert flaws([both[0], gone]) == ["stream 1 (cubic) had no connection for a while"]


def test_greedy_streams_that_leave_the_link_idle_are_a_flaw():
    # The link could carry 5 MB meanwhile.
    assert flaws(looks((0, 0), (1_400_000, 100_001))) == []
    slow = looks((0, 0), (1_000_000, 100_000))
    assert flaws(slow) == ["its streams delivered 22% of the link's rate"]
    # Bursts of our own took it, or what is not greedy did not.
    assert list(watch.flaws(slow, (BBR, CUBIC), 8_000_000, alone=False)) == []
    assert flaws(looks((0,), (1_000,), congestion=(None,)), streams=[UDP]) == []


KEPT_UP = {"bottleneck": False, "lateness_p99_ns": 200_000, "busy_peak": 0.7}


def test_a_machine_that_is_too_slow_is_a_flaw():
    rtt_ms = np.array([165.0] * 97 + [np.nan] * 2 + [170.0])
    assert list(machine_flaws(PATH, rtt_ms, KEPT_UP, 1)) == []
    late = {"bottleneck": True, "lateness_p99_ns": 1_250_000, "busy_peak": 0.53}
    assert list(machine_flaws(PATH, rtt_ms, late, 0)) == [
        "the emulator did not keep up: 1.25 ms late (p99), busy for 53% of a second"
    ]
    missed = "the prober missed 2 of 100 samples"
    assert list(machine_flaws(PATH, rtt_ms, KEPT_UP, 2)) == [missed]
    # 65 ms and 6 MiB at 500 Mbit/s are 165.7 ms.
    rtt_ms[3] = 168.8
    (beyond,) = machine_flaws(PATH, rtt_ms, KEPT_UP, 0)
    assert beyond.startswith("2 of 100 samples took longer than the path with a full queue, 165.7")


def test_a_request_is_its_settings_run_after_run():
    settings = ASKED.settings()
    assert [(one.seed, one.label) for one in settings] == [
        (5, "B0-C0"),
        (5, "B1-C0"),
        (6, "B0-C0"),
        (6, "B1-C0"),
    ]
    assert {one.path for one in settings} == {PATH}
    assert {one.pattern for one in settings} == {None}
    assert settings[0].plan == PLAN
    more = dataclasses.replace(
        ASKED,
        classes="six, R1,B0-C0",
        paths=["1 Mbit/s, 2 ms, 3 kB", "1 Mbit/s, 2 ms, 3000 B, fifo", "2 Mbit/s, 2 ms, 3 kB"],
        patterns=["passive", "C5-S5"],
        runs=1,
    ).settings()
    assert len(more) == 2 * 2 * 7
    assert {str(one.pattern) for one in more} == {"None", "C5-S5"}
    assert len(dataclasses.replace(ASKED, classes="all").settings()) == 2 * len(ALL_LABELS)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--classes", "B0-C0,X"], "no class 'X'; the classes are B0-C0"),
        (["--classes", ""], "no class ''"),
        (["--path", "5 Mbit/s"], "path '5 Mbit/s': rate, round-trip time"),
        (["--path", "5 Mbit/s, 1 ms, 1 MB, lifo"], 'discipline = "lifo": allowed are fifo'),
        (["--pattern", "C5-X1"], "segment 2 'X1': X is not a code"),
        (["--seconds", "long"], "--seconds long: a number"),
        (["--seconds", "0"], "0 seconds: above 0"),
        (["--rate", "200"], "a rate of 200 Hz"),
        (["--rate", "100", "--requests", "20"], "20 requests 1 ms apart do not fit"),
        (["--runs", "0"], "--runs 0: at least one"),
        (["--seed", "-1"], "--seed -1: a whole number"),
        (["--warmup", "nan"], "--warmup nan: 0 to 3600"),
    ],
)
def test_what_cannot_be_collected_is_refused_before_anything_starts(tmp_path, capsys, words, why):
    out = tmp_path / "out.npz"
    assert main(["ops", "collect", "--out", str(out), *words]) == 2
    assert why in capsys.readouterr().err
    assert not out.exists()


def test_a_file_that_is_not_of_recordings_is_left_alone(tmp_path, capsys):
    (tmp_path / "notes.npz").write_text("my notes")
    for words in (["collect", "--out"], ["show"]):
        assert main(["ops", *words, str(tmp_path / "notes.npz")]) == 2
        assert "notes.npz is not a file of recordings" in capsys.readouterr().err
    assert (tmp_path / "notes.npz").read_text() == "my notes"


def recorded(setting, flaws=()):
    """A recording of a setting, without a lab; its samples tell it from others of the same."""
    recorded.count += 1
    samples = setting.plan.samples
    return Recording(
        label=setting.label,
        source="kernel",
        path=setting.path,
        pattern=str(setting.pattern) if setting.pattern else None,
        seed=setting.seed,
        rate_hz=float(setting.plan.rate_hz),
        requests=setting.plan.requests,
        rtt_ms=np.full(samples, float(recorded.count)),
        lost=np.zeros(samples, dtype=np.int64),
        flaws=tuple(flaws),
        made={"warmup_s": setting.warmup_s},
    )


recorded.count = 0


@pytest.fixture
def captures(monkeypatch):
    """Settings that were captured; what `captures.next` gives instead of a recording, if any."""

    class Captures(list):
        outcomes = ()

        def __call__(self, setting):
            self.append(setting)
            outcome = next(self.outcomes, None)
            if isinstance(outcome, BaseException):
                raise outcome
            return recorded(setting, outcome or ())

    found = Captures()
    found.outcomes = iter(())
    monkeypatch.setattr("studies.training.collecting.collection.capture", found)
    return found


def test_a_collection_that_was_broken_off_goes_on(tmp_path, captures):
    settings, file = ASKED.settings(), tmp_path / "a.npz"
    captures.outcomes = iter([None, None, KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        list(collect(settings, file))
    first, _ = load_whole(file)
    assert [one.label for one in first] == ["B0-C0", "B1-C0"]
    done = list(collect(settings, file))
    assert [one.is_new for one in done] == [False, False, True, True]
    assert captures == [*settings[:3], *settings[2:]]
    kept, provenance = load_whole(file)
    assert [one.rtt_ms[0] for one in kept[:2]] == [one.rtt_ms[0] for one in first]
    assert [(one.seed, one.label) for one in kept] == [(one.seed, one.label) for one in settings]
    assert provenance["by"] == "weir ops collect"


def test_two_collections_into_one_file_are_refused(tmp_path, captures, capsys):
    file = tmp_path / "a.npz"
    first = collect(ASKED.settings(), file)
    next(first)
    with pytest.raises(BadInput, match=r"a\.npz: another collection writes to it"):
        next(collect(ASKED.settings(), file))
    assert main(["ops", "collect", "--out", str(file), "--seconds", "2"]) == BadInput.exit_code
    assert "another collection" in capsys.readouterr().err
    assert len(captures) == 1
    # Another file is free, and this one is once the first has ended, or was broken off.
    next(collect(ASKED.settings(), tmp_path / "b.npz"))
    first.close()
    assert [one.is_new for one in collect(ASKED.settings(), file)] == [False, True, True, True]


def test_a_path_that_does_not_answer_ends_it_and_keeps_the_rest(tmp_path, captures):
    captures.outcomes = iter([None, Unavailable("b answered none of 60 echo requests")])
    with pytest.raises(Unavailable):
        list(collect(ASKED.settings(), tmp_path / "a.npz"))
    assert len(load_whole(tmp_path / "a.npz")[0]) == 1


class Strange(Setting):
    """A setting whose stream is of no kernel's control."""

    def scenario(self):
        return super().scenario().replace('"bbr"', '"nonesuch"')


def test_a_control_that_the_kernel_lacks_is_told_before_anything_starts(tmp_path, captures):
    settings = [*ASKED.settings(), Strange("B1-C0", PATH, PLAN)]
    with pytest.raises(Unsupported, match='"nonesuch" is not in this kernel; it has'):
        list(collect(settings, tmp_path / "a.npz"))
    assert captures == []
    assert not (tmp_path / "a.npz").exists()


def test_a_flawed_recording_is_kept_marked_and_made_again(tmp_path, captures):
    settings, file = ASKED.settings()[:1], tmp_path / "a.npz"
    captures.outcomes = iter([["it was late"], ["it was late again"], None])
    for expected in (("it was late",), ("it was late again",), (), ()):
        list(collect(settings, file))
        assert [one.flaws for one in load_whole(file)[0]] == [expected]
    assert len(captures) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"label": "B0-C1"},
        {"path": dataclasses.replace(PATH, buffer_bytes=1)},
        {"pattern": Pattern.parse("C1-S1")},
        {"seed": 6},
        {"warmup_s": 2.0},
        {"plan": Plan(Fraction(20), 2, Fraction(2))},
        {"plan": Plan(Fraction(10), 1, Fraction(4))},
        {"plan": Plan(Fraction(20), 1, Fraction(3))},
    ],
)
def test_a_recording_of_anything_else_does_not_count_and_stays(tmp_path, captures, change):
    (setting, *_), file = ASKED.settings(), tmp_path / "a.npz"
    other = recorded(dataclasses.replace(setting, **change))
    simulated = dataclasses.replace(recorded(setting), source="simulator")
    save(file, [other, simulated], {})
    assert [one.is_new for one in collect([setting], file)] == [True]
    assert len(load_whole(file)[0]) == 3


def test_the_command_tells_what_it_did_and_what_is_flawed(tmp_path, capsys, captures):
    words = ["ops", "collect", "--out", str(tmp_path / "a.npz"), "--classes", "B0-C0,B0-C1"]
    words += ["--seconds", "2", "--warmup", "1"]
    captures.outcomes = iter([None, ["the emulator did not keep up"]])
    assert main(words) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith(
        "[1/2] B0-C0, 500 Mbit/s, 65 ms, 6 MiB, fifo, passive, seed 1: 2 s; RTT"
    )
    assert second.endswith("FLAWED: the emulator did not keep up")
    assert last == "1 of 2 are flawed; the same command makes those again"
    assert main([*words, "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(event["label"], event["is_new"]) for event in events] == [
        ("B0-C0", False),
        ("B0-C1", True),
    ]


def test_a_file_is_shown_and_drawn(tmp_path, capsys):
    (setting, *_), file = ASKED.settings(), tmp_path / "a.npz"
    rtt_ms = np.full(40, 100.0)
    rtt_ms[[3, 4, 39]] = np.nan
    lost = np.isnan(rtt_ms).astype(np.int64)
    sound = dataclasses.replace(
        recorded(setting), rtt_ms=rtt_ms, lost=lost, background_bps=(4 * 10**8, 5 * 10**7)
    )
    save(file, [sound, recorded(setting, ["a stream died"])], {"weir": "0.1"})
    assert main(["ops", "show", str(file), "--json", "--plot", str(tmp_path / "plots")]) == 0
    one, flawed = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (one["samples"], one["unanswered_samples"], one["lost_requests"]) == (40, 3, 3)
    assert one["rtt_ms"] == {"min": 100, "p50": 100, "max": 100}
    assert one["background_bps"] == [4 * 10**8, 5 * 10**7]
    assert flawed["flaws"] == ["a stream died"]
    assert main(["ops", "show", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "kernel: 500 Mbit/s, 65 ms, 6 MiB, fifo; passive, 20 Hz x 1\n" in shown
    assert "  FLAWED: B0-C0, seed 5: a stream died\n" in shown
    assert "2 recordings, 1 of them flawed; weir: 0.1\n" in shown
    (picture,) = (tmp_path / "plots").iterdir()
    assert picture.name == "B0-C0.svg"
    drawn = picture.read_text()
    # Three losses cut the curve into two; the flawed one is not drawn.
    assert drawn.count("<polyline") == 2
    assert "streams of 400 + 50 Mbit/s" in drawn


def test_a_file_without_recordings_cannot_be_drawn(tmp_path, capsys):
    save(tmp_path / "a.npz", [], {})
    words = ["ops", "show", str(tmp_path / "a.npz")]
    assert main(words) == 0
    assert main([*words, "--plot", str(tmp_path)]) == 2
    assert "no recording to draw" in capsys.readouterr().err
