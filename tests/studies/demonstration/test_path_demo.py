"""`weir demo path`: what is made of seconds and counts, and one file over a real long path."""

import json
import os

import pytest
from rig import lab_lacks

from studies.demonstration.path import LongPath
from studies.rig import copying
from studies.rig.copying import Copied, Hosts, Rsync, WeirSend, copy
from weir.errors import TransferFailed
from weir.lab import Lab, parse

PAIR = '[hosts]\na = {}\nb = {}\n[[link]]\nname = "line"\nends = ["a", "b"]\ndelay = "5 ms"\n'
CHOICE = {"event": "choice", "control": "bbr", "streams": 1, "why": "a path that loses packets"}


def shown(**seconds):
    """The demonstration as it would be after copies that took so long."""
    demo = LongPath(seed=7, file_bytes=1_000_000)
    for case in demo._cases:
        if seconds.get(case.key) is None:
            continue
        case.copied = Copied(seconds[case.key], [CHOICE] if case.key == "auto" else [])
        case.saw(0.5, 400_000)
        case.saw(1.0, 1_000_000)
    return demo


def test_figures_are_flat_and_the_best_fixed_setting_is_named():
    figures = shown(plain=8, rsync=9, auto=3, bbr=2.5, streams_8=2).figures()
    assert figures["best_fixed_s"] == 2
    assert figures["best_fixed"] == "weir send --cca cubic --streams 8"
    assert (figures["plain_s"], figures["rsync_s"], figures["auto_s"]) == (8, 9, 3)
    assert figures["auto_chosen"] == "bbr"
    demo = shown(plain=8, auto=3, bbr=2.5, streams_8=2)
    demo._of("auto").copied = Copied(3.0, [CHOICE | {"streams": 8}])
    assert demo.figures()["auto_chosen"] == "bbr, 8 streams"


def test_without_rsync_or_bbr_their_bars_are_left_out():
    demo = shown(plain=8, auto=3, streams_8=2)
    figures = demo.figures()
    assert figures["rsync_s"] is None and figures["bbr_s"] is None
    assert figures["best_fixed"] == "weir send --cca cubic --streams 8"
    picture = demo.picture()
    assert "rsync" not in picture and "bbr</text>" not in picture.replace(", bbr</text>", "")


@pytest.mark.parametrize(("auto", "holds"), [(4, True), (4.1, False)])
def test_it_holds_where_the_choice_takes_half_the_time(auto, holds):
    assert shown(plain=8, auto=auto, bbr=2, streams_8=2).holds() is holds


def test_the_picture_has_a_panel_a_way_and_the_facts_a_rate_for_each_half_second():
    demo = shown(plain=8, rsync=9, auto=3, bbr=2.5, streams_8=2)
    picture = demo.picture()
    for words in ("weir send --cca cubic", "rsync", "3.0 s, 2.7 Mbit/s, bbr", "0.01 % loss"):
        assert words in picture
    facts = demo.facts()
    # 400 kB in the first half second, 600 kB in the second.
    assert [rate for rate in facts[0]["link_mbit_s"] if rate] == [6.4, 9.6]
    json.dumps(facts)
    assert "a path that loses" in " ".join(str(note) for note in demo.notes())


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    if missing := lab_lacks():
        pytest.skip(f"no lab: {missing}")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    with Lab.up(parse(PAIR)) as lab:
        yield Hosts(lab, "a", "b", "line")


def test_a_file_is_timed_watched_and_compared(hosts, tmp_path, monkeypatch):
    source, seen = tmp_path / "file", []
    source.write_bytes(os.urandom(3 << 20))
    folder = tmp_path / "copied"
    folder.mkdir()
    done = copy(WeirSend("--rate", "40 Mbit/s"), hosts, source, folder, lambda *x: seen.append(x))
    # 3 MiB at 40 Mbit/s.
    assert done.seconds > 0.5
    assert done.events[-1]["event"] == "done"
    assert (folder / "root" / "file").read_bytes() == source.read_bytes()
    counts = [count for _, count in seen]
    assert counts == sorted(counts) and 0 < counts[-1] < 1.2 * (3 << 20)
    assert [at_s for at_s, _ in seen] == sorted(at_s for at_s, _ in seen)
    again = tmp_path / "again"
    again.mkdir()
    with pytest.raises(TransferFailed, match=r"--cca nosuch ended with 2: .*nosuch"):
        copy(WeirSend("--cca", "nosuch"), hosts, source, again, lambda *_: None, limit_s=30.0)


def test_what_this_machine_lacks_is_named(monkeypatch):
    monkeypatch.setattr(copying.shutil, "which", lambda name: None)
    assert Rsync().missing() == "rsync is not installed"
    assert "no such-thing" in WeirSend(needs="such-thing").missing()
    assert WeirSend().missing() is None
