"""VD-DUT on traces made by hand, as the work's acceptance tests have them, and its calibration."""

import json
from ipaddress import ip_address

import pytest
from capture_rig import CLIENT, SERVER, ip, pcap, raw, tcp, udp
from hypothesis import given
from hypothesis import strategies as st

from weir.cli import main
from weir.errors import BadInput
from weir.observe.desktop import calibrate, dut, mark
from weir.observe.desktop.capture import Packet
from weir.observe.desktop.dut import Rule, Task

S = 10**9
ENDS = ip_address(SERVER), ip_address(CLIENT)


def sent(*places):
    """Packets of UDP: when in s, and how large."""
    return [Packet(round(at * S), size, *ENDS, 17) for at, size in places]


def one(packets, rule=Rule(), until=100.0):  # noqa: B008
    (found,) = dut.updates(packets, [Task(0)], rule, round(until * S))
    return found


IDLE = [(at * 0.42, 110) for at in range(1, 200)]


def test_an_idle_desktop_has_no_update():
    found = one(sent(*IDLE))
    assert found.dut_s is None
    assert found.packets == 0


def test_strays_a_minute_later_do_not_prolong_an_update():
    drawn = [(0.1, 1400), (0.15, 1400), (60.0, 200), (60.001, 600)]
    found = one(sent(*sorted([*IDLE, *drawn])))
    assert found.dut_s == pytest.approx(0.15)
    assert (found.packets, found.bytes) == (2, 2800)


@pytest.mark.parametrize(("gap", "end"), [(0.490, 0.690), (0.5, 0.7), (0.510, 0.2)])
def test_a_pause_of_490_ms_joins_and_one_of_510_ms_ends(gap, end):
    assert one(sent((0.2, 1400), (0.2 + gap, 1400))).dut_s == pytest.approx(end)


def test_twice_the_gap_changes_nothing_of_a_usual_trace():
    packets = sent((0.3, 1400), (0.475, 1400), (0.9, 800), (60, 300))
    assert one(packets).last_ns == one(packets, Rule(gap_ns=S)).last_ns == round(0.9 * S)


def test_the_first_packet_may_come_late():
    assert one(sent((2.0, 1400), (2.1, 1400))).dut_s == pytest.approx(2.1)


def test_a_packet_of_just_size_is_none():
    assert one(sent((0.1, 110), (0.2, 111), (0.3, 110))).dut_s == pytest.approx(0.2)


def test_an_update_ends_with_the_next_task_and_says_so():
    packets = sent((0.1, 1400), (0.9, 1400), (1.2, 1400))
    first, second = dut.updates(packets, [Task(0), Task(S)], Rule(gap_ns=S), 3 * S)
    assert (first.dut_s, second.dut_s) == (pytest.approx(0.9), pytest.approx(0.2))
    assert first.partial == "the next task began within it"
    assert not second.partial


def test_a_capture_that_ends_within_an_update_says_so():
    found = one(sent((0.1, 1400)), until=0.4)
    assert found.partial == "the capture ends within it"


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(60, 1500)), max_size=40),
    st.integers(60, 1500),
    st.integers(1, 100),
)
def test_the_update_is_that_of_the_works_loop(steps, size, gap):
    at, packets = 0, []
    for step, length in steps:
        at += step
        packets.append(Packet(at, length, *ENDS, 17))
    last = None
    for packet in packets:  # the pseudo-code of 000-spec 5.3.1, word for word
        if packet.size <= size:
            continue
        if last is not None and packet.at_ns - last > gap:
            break
        last = packet.at_ns
    found = dut.updates(packets, [Task(0)], Rule(size, gap))[0]
    assert found.last_ns == last


def segments(*places):
    """Packets of TCP: when in s, first byte, how many."""
    return [
        Packet(round(at * S), 66 + count, *ENDS, 6, (5901, 4), begin % 2**32, count)
        for at, begin, count in places
    ]


def test_what_tcp_sends_again_though_it_had_passed_is_not_fresh():
    packets = segments((0.1, 0, 1000), (0.2, 2000, 500), (0.3, 1000, 1000), (0.5, 2000, 500))
    found = one(packets)
    assert (found.dut_s, found.fresh_dut_s) == (pytest.approx(0.5), pytest.approx(0.3))


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=60),
)
def test_fresh_is_what_no_byte_by_byte_account_has(begin, pieces):
    known, expected = set(), []
    for at, count in pieces:
        own = set(range(at, at + count))
        expected.append(bool(own - known))
        known |= own
    packets = segments(*((0, begin + at, count) for at, count in pieces))
    assert dut.fresh(packets) == expected


def test_markers_tell_names_and_ends():
    packets = [
        Packet(1, 60, *ENDS, 17, (9, 5300), payload=b"weir-start open a file"),
        Packet(2, 60, *ENDS, 17, (9, 5300), payload=b"weir-end"),
        Packet(3, 60, *ENDS, 17, (9, 5300), payload=b"\1\2"),
        Packet(4, 60, *ENDS, 17, (9, 5301), payload=b"weir-end"),
        Packet(5, 60, *ENDS, 17, (9, 5300), payload=b"weir-start \x1b[2J"),
    ]
    assert dut.tasks(packets) == [Task(1, "open a file", 2), Task(3), Task(5, "\\x1b[2J")]


def test_the_parts_of_an_update_add_up():
    packets = sent((0.1, 1250), (0.6, 1250))
    update = dut.updates(packets, [Task(0, end_ns=S // 5)], Rule())[0]
    parts = dut.parts(update, 1e5)
    assert (parts.processing, parts.transmission) == (pytest.approx(0.2), pytest.approx(0.2))
    assert parts.processing + parts.transmission + parts.rest == pytest.approx(update.dut_s)
    assert dut.parts(update, 1e5, 0.3).rest == pytest.approx(0.1)


def test_a_run_has_the_geometric_mean_of_its_tasks():
    tasks = [Task(0), Task(10 * S), Task(20 * S)]
    found = dut.updates(sent((0.5, 500), (12, 500)), tasks, Rule(), 30 * S)
    assert dut.geometric_mean(found) == pytest.approx(1.0)


# --- calibration ---


def test_the_works_idle_trace_gives_the_works_size_and_gap():
    """1 417 packets of 110 bytes in ten minutes, and 20 larger ones in pairs once a minute."""
    idle = [(at * 600 / 1417, 110) for at in range(1417)]
    pairs = [
        (60 * at + 30.3 + late, 200 + 400 * (late > 0)) for at in range(10) for late in (0, 0.001)
    ]
    found = calibrate.calibrate(sent(*sorted(idle + pairs)), 600.0)
    assert found.rule == Rule(110, S // 2)
    assert (found.idle_packets, found.strays, found.bursts) == (1437, 20, 10)
    assert found.most_gap_s == pytest.approx(1.2)
    # With a second instead of half of one the work had the same results.
    assert found.most_gap_s > 1


def test_long_pauses_within_updates_make_the_gap_longer():
    tasks = [Task(0), Task(10 * S)]
    packets = sent((0.1, 1400), (0.8, 1400), (10.1, 1400))
    found = calibrate.calibrate(sent(*IDLE), 84.0, packets, tasks)
    assert found.rule.gap_ns == pytest.approx(0.875 * S)
    assert found.pauses_s == (pytest.approx(0.7),)


def test_strays_that_come_often_bound_the_gap_and_it_is_said():
    idle = sent(*sorted([*IDLE, *((at * 4.0, 900) for at in range(1, 10))]))
    found = calibrate.calibrate(idle, 84.0)
    assert found.rule.gap_ns == round(0.02 * 84 / 9 * S)
    assert "come too often" in found.warnings[0]


def test_a_silent_desktop_keeps_the_works_size():
    found = calibrate.calibrate([], 60.0)
    assert found.rule == Rule()
    assert "sent nothing" in found.warnings[0]


@pytest.mark.parametrize(
    ("packets", "seconds", "words"),
    [
        (sent(*IDLE), 5.0, "tells nothing"),
        (sent(*((at * 0.2, 60 + at % 7 * 200) for at in range(300))), 60.0, "no idle part"),
    ],
)
def test_what_is_not_idle_is_refused(packets, seconds, words):
    with pytest.raises(BadInput, match=words):
        calibrate.calibrate(packets, seconds)


# --- the command ---


def capture_file(tmp_path, packets, cut=0):
    path = tmp_path / "desktop.pcap"
    content = pcap(packets)
    path.write_bytes(content[: len(content) - cut])
    return str(path)


TRACE = [
    raw(1 * S, udp(b"weir-start one")),
    raw(S + S // 10, tcp(1000, 0)),
    raw(S + S // 5, udp(b"weir-end")),
    raw(S + S // 2, tcp(1000, 1000)),
    raw(6 * S, udp(b"weir-start two")),
    raw(6 * S + S // 4, tcp(1000, 2000)),
]


def test_dut_as_json(tmp_path, capsys):
    path = capture_file(tmp_path, TRACE)
    assert main(["observe", "desktop", "dut", path, "--json", "--line", "1 Mbit/s"]) == 0
    said = json.loads(capsys.readouterr().out)
    first, second = said["updates"]
    assert (said["server"], said["client"]) == (SERVER, CLIENT)
    assert first["label"] == "one"
    assert first["dut_s"] == pytest.approx(0.5)
    assert first["server_s"] == pytest.approx(0.2)
    assert first["rest_s"] == pytest.approx(0.5 - 0.2 - 2 * 1054 * 8 / 1e6)
    assert not first["partial"]
    assert second["partial"] == "the capture ends within it"


def test_dut_for_people_says_that_a_cut_capture_is_partial(tmp_path, capsys):
    assert main(["observe", "desktop", "dut", capture_file(tmp_path, TRACE, cut=3)]) == 0
    said = capsys.readouterr().out
    assert "partial: the file ends in the middle of a packet" in said
    assert "0.500 s" in said


def test_tasks_of_a_file_take_the_markers_place(tmp_path, capsys):
    tasks = tmp_path / "tasks.csv"
    tasks.write_text("begin_s,label,end_s\n1.050000001,late,1.1\n")
    command = ["observe", "desktop", "dut", capture_file(tmp_path, TRACE), "--json"]
    assert main([*command, "--tasks", str(tasks)]) == 0
    (update,) = json.loads(capsys.readouterr().out)["updates"]
    assert update["label"] == "late"
    assert update["dut_s"] == pytest.approx(0.449999999, abs=1e-12)


@pytest.mark.parametrize(
    ("packets", "words"),
    [
        ([raw(1, tcp(100))], "no marker packets"),
        ([raw(1, ip(bytes(1000), 50))], "a tunnel (ESP (IPsec)), in which markers cannot be seen"),
    ],
)
def test_a_capture_without_markers_says_what_to_do(tmp_path, capsys, packets, words):
    assert main(["observe", "desktop", "dut", capture_file(tmp_path, packets)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("label\nx\n", "no column begin_s"),
        ("begin_s\n", "has no tasks"),
        ("begin_s\nyesterday\n", ":2: yesterday is no time"),
        ("begin_s\n-1.5\n", ":2: -1.5 is no time"),
    ],
)
def test_a_wrong_file_of_tasks_is_named(tmp_path, text, words):
    path = tmp_path / "tasks.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=words):
        mark.load(path)


def test_calibrate_as_json(tmp_path, capsys):
    packets = [raw(at * S // 2, tcp(56, at)) for at in range(60)]
    command = ["observe", "desktop", "calibrate", capture_file(tmp_path, packets), "--json"]
    assert main(command) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["size_bytes"], said["gap_s"]) == (110, 0.5)


def test_a_clip_at_half_of_its_data_has_half_the_quality(tmp_path, capsys):
    def clip(name, bytes_a_frame, seconds, fps):
        frames = [
            raw(S + at * S // fps, tcp(bytes_a_frame - 54, at)) for at in range(fps * seconds)
        ]
        path = tmp_path / name
        marks = [raw(S, udp(b"weir-start")), raw(S + seconds * S, udp(b"weir-end"))]
        path.write_bytes(pcap([marks[0], *frames, marks[1]]))
        return str(path)

    normal, slow = clip("normal", 500, 3, 20), clip("slow", 1000, 60, 1)
    assert main(["observe", "desktop", "video", normal, slow, "--fps", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["slow_motion_quality"] == pytest.approx(0.5)
    same = ["observe", "desktop", "video", slow, slow, "--fps", "1", "--json"]
    assert main(same) == 0
    assert json.loads(capsys.readouterr().out)["slow_motion_quality"] == 1


@pytest.mark.parametrize(("end_s", "is_told"), [(1.05, False), (1.2, True)])
def test_a_script_that_waits_longer_than_the_update_is_told(tmp_path, capsys, end_s, is_told):
    """What is left of VD-DUT is less than nothing then."""
    passed = [(1, udp(b"weir-start one")), (1.1, tcp(1000, 0)), (end_s, udp(b"weir-end"))]
    path = tmp_path / "desktop.pcap"
    path.write_bytes(pcap([raw(round(at_s * S), packet) for at_s, packet in sorted(passed)]))
    assert main(["observe", "desktop", "dut", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["updates"][0]["rest_s"] < 0) == is_told
    assert [one for one in told["warnings"] if "1 of 1 tasks were taken for done" in one] == (
        told["warnings"]
    )
    assert bool(told["warnings"]) == is_told


def test_a_clip_that_the_desktop_did_not_send_has_no_quality(tmp_path, capsys):
    """It was 0, and the command had succeeded."""
    marks = [raw(S, udp(b"weir-start")), raw(3 * S, udp(b"weir-end"))]
    sent = [raw(2 * S, tcp(900)), raw(2 * S + 1, tcp(900, 900, source="10.0.0.7"))]
    before = [raw(S // 2, tcp(9000))]
    for name, packets in (
        ("both", [marks[0], *sent, marks[1]]),
        ("early", [*before, *marks]),
        ("other", [marks[0], *sent[1:], marks[1]]),
    ):
        (tmp_path / name).write_bytes(pcap(packets))
    both, early, other = (str(tmp_path / name) for name in ("both", "early", "other"))
    ends = ["--server", "10.0.0.1", "--client", "10.0.0.2"]
    for normal, more in ((early, []), (early, ends), (other, ends)):
        command = ["observe", "desktop", "video", normal, both, "--fps", "20", *more]
        assert main(command) == 2
        said = capsys.readouterr()
        assert f"{normal} has nothing that 10.0.0.1 sent to 10.0.0.2 between" in said.err
    command = ["observe", "desktop", "video", other, both, "--fps", "20", "--json"]
    assert main(command) == 0
    (doubt,) = json.loads(capsys.readouterr().out)["warnings"]
    assert "10.0.0.7 sent to 10.0.0.2 and what 10.0.0.1 sent to 10.0.0.2" in doubt


def test_a_clip_from_a_capture_that_is_cut_says_so(tmp_path, capsys):
    path, whole = tmp_path / "clip", tmp_path / "whole"
    marks = [raw(S, udp(b"weir-start")), raw(3 * S, udp(b"weir-end"))]
    whole.write_bytes(pcap([marks[0], raw(2 * S, tcp(900)), marks[1]]))
    path.write_bytes(pcap([marks[0], raw(2 * S, tcp(900)), marks[1], raw(4 * S, tcp(900))])[:-1])
    assert main(["observe", "desktop", "video", str(path), str(whole), "--fps", "20"]) == 0
    assert f"note: partial: {path}: the file ends" in " ".join(capsys.readouterr().out.split())


def test_a_line_that_cannot_have_carried_what_came_is_doubted(tmp_path, capsys):
    """It was 16 864 s on the line of half a second, and -16 863.7 s were left."""
    passed = [(1, udp(b"weir-start one")), (1.1, tcp(1000, 0)), (1.5, tcp(1000, 1000))]
    path = tmp_path / "desktop.pcap"
    path.write_bytes(pcap([raw(round(at_s * S), packet) for at_s, packet in passed]))
    for line, is_doubted in (("1 bit/s", True), ("33 kbit/s", True), ("34 kbit/s", False)):
        assert main(["observe", "desktop", "dut", str(path), "--line", line, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)["warnings"]
        assert told == is_doubted * [
            f"1 of 1 updates came faster than {line} carries them: is that the line's rate, and "
            "the capture from behind it?"
        ]
    assert main(["observe", "desktop", "dut", str(path), "--line", "1 kbit/s"]) == 0
    assert "note: 1 of 1 updates came faster" in capsys.readouterr().out
