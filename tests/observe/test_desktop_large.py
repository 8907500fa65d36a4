"""Captures that are larger than memory: read as they pass, with the same result."""

import json
import subprocess
import sys
import textwrap
from ipaddress import ip_address

import pytest
from capture_rig import CLIENT, SERVER, block, interface, pcap, raw, section, tcp, udp
from hypothesis import given
from hypothesis import strategies as st

from weir.cli import main
from weir.observe.desktop import calibrate, capture, dut, mark, ratings, video
from weir.observe.desktop.capture import Capture
from weir.observe.desktop.dut import Rule, Task, Update, Which

S = 10**9
MS = S // 1000
ENDS = ip_address(SERVER), ip_address(CLIENT)
OTHER = "10.0.0.9"


def at_once(packets, done, rule, until_ns):
    """Updates by the work's words, of packets that are all there: first of each, then its pause."""
    large = [one for one in packets if one.size > rule.size]
    news = dict(zip(map(id, large), dut.fresh(large), strict=True))
    found = []
    for task, after in zip(done, [*done[1:], None], strict=True):
        own = [
            one
            for one in large
            if task.begin_ns <= one.at_ns and (after is None or one.at_ns < after.begin_ns)
        ]
        drawn = own[:1]
        for one in own[1:]:
            if one.at_ns - drawn[-1].at_ns > rule.gap_ns:
                break
            drawn.append(one)
        if not drawn:
            why = "" if until_ns > task.begin_ns else "the capture ends with the marker"
            found.append(Update(task, partial=why))
            continue
        last_ns = drawn[-1].at_ns
        fresh = [one.at_ns for one in drawn if news[id(one)]]
        pause = (after.begin_ns if after else until_ns) - last_ns
        why = "the next task began within it" if after else "the capture ends within it"
        total = sum(one.size for one in drawn)
        found.append(
            Update(
                task,
                len(drawn),
                total,
                drawn[0].at_ns,
                last_ns,
                fresh[-1] if fresh else last_ns,
                "" if pause > rule.gap_ns else why,
            )
        )
    return found


def mixed(steps):
    """Packets of a desktop, of its opposite direction, of others, and markers."""
    at_ns, found = S, []
    for step, kind, length, begin in steps:
        at_ns += step * 50 * MS
        packet = {
            "sent": lambda n, b: tcp(n, b),
            "taken": lambda n, b: tcp(n // 9, b, source=CLIENT, destination=SERVER),
            "other": lambda n, b: tcp(n // 9, b, source=OTHER),
            "start": lambda n, b: udp(b"weir-start t%d" % n),
            "end": lambda n, b: udp(b"weir-end"),
        }[kind](length, begin)
        found.append(raw(at_ns, packet))
    return found


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 2, 9, 10, 11, 30]),
        st.sampled_from(["sent"] * 5 + ["taken", "other", "start", "end"]),
        st.integers(20, 1400),
        st.integers(0, 3000),
    ),
    min_size=1,
    max_size=60,
)


@given(STEPS, st.sampled_from([2, 3, 1 << 17]))
def test_what_passes_tells_what_is_told_at_once(tmp_path_factory, steps, places):
    path = tmp_path_factory.mktemp("large") / "some.pcap"
    path.write_bytes(pcap([raw(S, udp(b"weir-start")), raw(S, tcp(60_000)), *mixed(steps)]))
    whole = capture.read(path)
    done = dut.tasks(whole.packets)
    expected = at_once(whole.between(*ENDS), done, Rule(), whole.packets[-1].at_ns)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(capture, "_PLACES", places)
        for ends in (None, ENDS):
            about, chosen, found = dut.of_file(path, Which(ends), Rule())
            assert (chosen, found) == (ENDS, expected)
            assert not about.warnings
    assert about.seconds == (whole.packets[-1].at_ns - whole.packets[0].at_ns) / 1e9


def test_packets_a_little_out_of_order_are_put_where_they_belong(tmp_path, monkeypatch):
    monkeypatch.setattr(capture, "_PLACES", 4)
    times = [at ^ 3 for at in range(40)]  # in fours, each backwards
    path = tmp_path / "some.pcap"
    path.write_bytes(pcap([raw(at * MS, tcp(1000)) for at in times]))
    about = Capture("some")
    assert [one.at_ns for one in capture.passing(path, about)] == [at * MS for at in range(40)]
    assert not about.warnings


def test_packets_far_behind_their_time_are_left_out_and_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(capture, "_PLACES", 4)
    sent = [raw(S + at * MS, tcp(1000, 1000 * at)) for at in range(20)]
    path = tmp_path / "some.pcap"
    path.write_bytes(pcap([raw(S, udp(b"weir-start")), *sent, raw(S + MS // 2, tcp(900))]))
    assert main(["observe", "desktop", "dut", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["updates"][0]["packets"] == 20
    assert said["warnings"] == [
        f"1 packets of {path} stand more than 4 places behind their time and were left out: "
        "put it in order first (reordercap)"
    ]
    # All at once, it has its place.
    assert len(capture.read(path).packets) == 22


COUNT = 60_000
ROOM_BYTES = 12 << 20
"""All packets at once would take more than 15 MB."""
LIMITED = """
    import resource, sys
    from pathlib import Path
    from weir.cli import main
    from weir.observe.desktop import capture, dut, video
    from weir.observe.desktop import calibrate
    import rich.console, weir.terminal
    main(["observe", "desktop", "dut", sys.argv[1], "--json"])  # what is loaded when it is wanted
    capture._PLACES = 1 << 12
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[3]),) * 2)
    path = sys.argv[2]
    if sys.argv[4] == "whole":
        capture.read(Path(path))
    elif sys.argv[4] == "video":
        main(["observe", "desktop", "video", path, path, "--fps", "1", "--json"])
    else:
        main(["observe", "desktop", "dut", path, "--json"])
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A capture of a task in which many packets come, and a small one."""
    folder = tmp_path_factory.mktemp("large")
    sent = [raw(S + at * MS, tcp(1000, 1000 * at)) for at in range(COUNT)]
    marks = raw(S, udp(b"weir-start")), raw(S + COUNT * MS, udp(b"weir-end"))
    rest = b"".join(pcap([one])[len(pcap([])) :] for one in (*sent, marks[1]))
    (folder / "large.pcap").write_bytes(pcap([marks[0]]) + rest)
    (folder / "small.pcap").write_bytes(pcap([marks[0], *sent[:9]]))
    return folder


def limited(folder, what):
    arguments = [folder / "small.pcap", folder / "large.pcap", str(ROOM_BYTES), what]
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_capture_larger_than_memory_is_read(large):
    assert "MemoryError" in limited(large, "whole").stderr, "the limit is one"
    done = limited(large, "dut")
    (update,) = json.loads(done.stdout.splitlines()[-1])["updates"]
    assert (update["packets"], update["dut_s"]) == (COUNT, (COUNT - 1) / 1000)
    done = limited(large, "video")
    assert json.loads(done.stdout.splitlines()[-1])["normal_bytes"] == COUNT * 1054


def test_a_clip_ends_before_what_is_sent_with_its_marker(tmp_path):
    path = tmp_path / "clip.pcap"
    times = [0, 1000, 1500, 2000, 2500]
    frames = [raw(at * MS, tcp(900)) for at in times]
    marks = [raw(1000 * MS, udp(b"weir-start")), raw(2000 * MS, udp(b"weir-end"))]
    path.write_bytes(pcap([*frames, *marks, raw(9000 * MS, udp(b"weir-start"))]))
    _, _, found = video.of_file(path, Which(), 24.0)
    assert (found.bytes, found.seconds) == (2 * 954, 1.0)


# --- what has no end is refused, and how to cut it told ---


def told(capsys, *arguments):
    assert main(["observe", "desktop", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_too_many_packets_for_a_calibration_say_how_to_cut_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(calibrate, "_MOST_PACKETS", 50)
    path = tmp_path / "idle.pcap"
    idle = [raw(at * S // 2, tcp(56, at)) for at in range(50)]
    others = [raw(at * S // 2, tcp(1000, at, source=OTHER)) for at in range(50)]
    path.write_bytes(pcap(sorted([*idle, *others], key=lambda one: one[0])))
    said = told(capsys, "calibrate", path)
    assert "more than 50 packets" in said
    assert "editcap -A BEGIN -B END" in said
    ends = ["--server", SERVER, "--client", CLIENT]
    assert main(["observe", "desktop", "calibrate", str(path), *ends]) == 0
    assert "50 packets in 24 idle s" in capsys.readouterr().out


def test_too_many_pairs_of_addresses_ask_for_the_desktops(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(capture, "MOST_PAIRS", 10)
    path = tmp_path / "scan.pcap"
    scan = [raw(2 * S, tcp(900, destination=f"10.1.0.{at}")) for at in range(20)]
    path.write_bytes(pcap([raw(S, udp(b"weir-start")), raw(S, tcp(100)), *scan]))
    assert "more than 10 pairs of addresses" in told(capsys, "dut", path)
    ends = ["--server", SERVER, "--client", CLIENT]
    assert main(["observe", "desktop", "dut", str(path), *ends]) == 0


def test_too_many_tasks_or_holes_are_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(dut, "MOST_TASKS", 10)
    monkeypatch.setattr(dut, "_MOST_KEPT", 30)
    path = tmp_path / "some.pcap"
    path.write_bytes(pcap([raw(S, tcp(900)), *(raw(S + at, udp(b"x")) for at in range(11))]))
    assert "more than 10 packets to UDP port 5300: are these markers?" in told(capsys, "dut", path)
    holes = [raw(2 * S + at, tcp(500, 1000 * at)) for at in range(40)]
    path.write_bytes(pcap([raw(S, udp(b"weir-start")), *holes]))
    said = told(capsys, "dut", path)
    assert "too many updates, connections and lost packets to keep" in said
    assert "editcap" in said


def test_too_many_rows_of_a_table_are_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(mark, "MOST_TASKS", 10)
    monkeypatch.setattr(ratings, "_MOST", 10)
    tasks, opinions, path = (tmp_path / one for one in ("tasks.csv", "ratings.csv", "some.pcap"))
    path.write_bytes(pcap([raw(S, tcp(900))]))
    tasks.write_text("begin_s\n" + "1\n" * 11)
    assert "has more than 10 tasks" in told(capsys, "dut", path, "--tasks", tasks)
    opinions.write_text("subject,activity,loss_percent,rating\n" + "a,x,0,3\n" * 11)
    assert "has more than 10 ratings" in told(capsys, "ratings", opinions)


def test_interfaces_without_end_are_damage(tmp_path, monkeypatch):
    monkeypatch.setattr(capture, "_MOST_INTERFACES", 5)
    path = tmp_path / "some.pcapng"
    one = section() + interface()
    packet = block(6, bytes(12) + b"\x4a\0\0\0" * 2 + tcp(34) + bytes(34))
    path.write_bytes((one + packet) * 6)
    found = capture.read(path)
    assert (len(found.packets), found.cut) == (
        5,
        "more than 5 interfaces: the file is damaged from there on",
    )


def test_tasks_of_one_moment_each_have_an_update():
    packets = [capture.Packet(at * S, 900, *ENDS, 17) for at in (1, 2, 3)]
    found = dut.updates(packets, [Task(0), Task(2 * S), Task(2 * S)], Rule(gap_ns=S))
    assert [one.packets for one in found] == [1, 0, 2]
