"""A desktop with real programs: what its page, its recorder and its screen's watcher do."""

import contextlib
import os
import queue
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib

import numpy as np
import pytest
from rig import lab_lacks

from studies.rig.desktop import card, clip, gstreamer, page, pictures, programs, recorder, watcher
from studies.rig.desktop.lossy import RDP, RTP, Line
from weir.errors import BadInput, Unavailable, Unsupported

needs_programs = pytest.mark.skipif(programs.missing() is not None, reason=str(programs.missing()))
needs_lab = pytest.mark.skipif(lab_lacks() is not None, reason=str(lab_lacks()))


@pytest.mark.parametrize("program", ["twm", "chromium", "xdotool"])
def test_what_is_missing_is_named(monkeypatch, program):
    monkeypatch.setattr(programs.shutil, "which", lambda one: None if one == program else one)
    assert f"apt-get install {program}" in programs.missing()
    with pytest.raises(Unsupported, match=program):
        programs.carry_out("i", Line(), 1)


def test_a_file_has_the_pictures_colours():
    shown = pictures.picture(40, 24, 1.6, 1)
    content = page.png(shown)
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        kind, data = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", content[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + data)
        chunks[kind], at = data, at + 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert struct.unpack(">II5B", chunks[b"IHDR"]) == (40, 24, 8, 2, 0, 0, 0)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(24, 121)
    assert not rows[:, 0].any()
    assert (rows[:, 1:].reshape(24, 40, 3) == shown[:, :, ::-1][:, :, 1:]).all()


def test_a_page_is_whole_and_names_what_is_there(tmp_path):
    content = page.write(tmp_path, 64, 48, 1).read_text()
    assert "@" not in content
    names = {one.name for one in tmp_path.glob("*.png")}
    assert len(names) == 7
    assert all(f'"{name}"' in content for name in names)


needs_clip = pytest.mark.skipif(clip.missing() is not None, reason=str(clip.missing()))


@needs_clip
def test_a_clips_files_have_all_frames_at_both_rates(tmp_path):
    """As GStreamer reads them again: nearly the card's colours."""
    own, slow = clip.write(tmp_path, 1.0, 3)
    size = 4 * card.CLIP_WIDTH * card.CLIP_HEIGHT
    for path, count in ((own, round(card.CLIP_FPS)), (slow, card.CLIP_FRAMES)):
        command = ["gst-launch-1.0", "-q", "filesrc", f"location={path}", "!", "matroskademux"]
        command += ["!", "vp8dec", "!", "videoconvert", "!", "video/x-raw,format=BGRx", "!"]
        read = subprocess.run([*command, "fdsink", "fd=1"], capture_output=True, check=True).stdout
        assert len(read) == count * size
        shape = (count, card.CLIP_HEIGHT, card.CLIP_WIDTH, 4)
        frames = np.frombuffer(read, np.uint8).reshape(shape).astype(int)
        painted = card.moving(3)
        for at in (0, 7, count - 1):
            wanted = painted[at % card.CLIP_FRAMES]
            assert np.abs(frames[at, :, :, :3] - wanted[:, :, :3]).mean() < 4


@needs_clip
def test_a_clip_that_cannot_be_made_has_gstreamers_words(tmp_path):
    with pytest.raises(Unavailable, match=r"gst-launch-1\.0"):
        clip.write(tmp_path / "absent", 1.0, 3)


def test_what_makes_clips_and_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(gstreamer.shutil, "which", lambda one: None)
    assert "apt-get install gstreamer1.0-tools" in clip.missing()
    monkeypatch.setattr(programs, "missing", lambda protocol: None)
    with pytest.raises(Unsupported, match="GStreamer"):
        programs.carry_out("iv", Line(), 1)


class Told:
    """A screen that shows what a test has it show."""

    def __init__(self, changed):
        self.pixels = np.zeros((4, 4, 4), np.uint8)
        self.changed = changed
        self.coming, self.has_shown = queue.Queue(), threading.Semaphore(0)

    def show(self, *values):
        """Each value is a rectangle of one update."""
        self.coming.put(values)
        assert self.has_shown.acquire(timeout=60)

    def key(self, character):
        raise AssertionError(character)

    def take(self):
        for at, value in enumerate(self.coming.get()):
            self.pixels[at, 0, 0] = value
            self.changed()
        self.has_shown.release()


def watched():
    opened = []

    def make(changed):
        opened.append(Told(changed))
        return opened[0]

    return watcher.Watcher(make), opened[0]


def test_a_screen_is_there_with_its_last_change_and_not_with_what_changes_nothing():
    watching, screen = watched()
    screen.show(1)
    screen.show(2)
    done_ns = time.time_ns()
    screen.show(2)
    told = watching.shows(recorder.digest(screen.pixels), 0.01)
    assert told["whole_ns"] <= done_ns
    assert told["frames"] == 2
    screen.show(3, 1, 4)
    later = watching.shows(recorder.digest(screen.pixels), 0.01)
    assert later["whole_ns"] >= done_ns
    assert later["frames"] == 1


def test_a_screen_that_shows_something_else_is_never_there(monkeypatch):
    monkeypatch.setattr("studies.rig.desktop.screen.LIMIT_S", 0.1)
    watching, screen = watched()
    with pytest.raises(Unavailable, match="nothing still"):
        watching.until_there(0.01)
    screen.show(1)
    watching.until_there(0.01)
    wanted = screen.pixels.copy()
    wanted[3, 3, 2] = 1
    assert watching.shows(recorder.digest(wanted), 0.01)["whole_ns"] is None
    # What is no colour is not compared.
    same = screen.pixels.copy()
    same[:, :, 3] = 255
    assert watching.shows(recorder.digest(same), 0.01)["whole_ns"] is not None


class Painted(recorder.Damage):
    """A display without an X server."""

    def __init__(self, last_ns=0):
        self.last_ns = last_ns
        self.pixels = np.zeros((2, 2, 4), np.uint8)

    def shown(self):
        return self.pixels


@pytest.fixture
def xdotool(tmp_path, monkeypatch):
    """An xdotool that presses nothing; what the environment of its caller is to be."""
    program = tmp_path / "xdotool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(recorder, "_STILL_S", 0.01)
    return dict(os.environ)


def test_a_task_that_changes_nothing_or_follows_a_late_change_is_no_task(xdotool):
    painted = Painted()
    before = recorder.digest(painted.pixels)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as keeper:
        keeper.bind(("127.0.0.1", 0))
        where = keeper.getsockname()
        with pytest.raises(Unavailable, match="key i changed nothing"):
            recorder.task("i", before, painted, where, xdotool)
        assert b"i" in keeper.recv(100)
        painted.pixels[0, 0, 0] = 1
        with pytest.raises(Unavailable, match="by itself"):
            recorder.task("i", before, painted, where, xdotool)


def test_a_display_is_still_after_the_last_time_that_it_was_painted_to(monkeypatch):
    begin_ns = time.time_ns()
    assert Painted(begin_ns + 1000).until_still(begin_ns, 0.01) == begin_ns + 1000
    assert time.time_ns() - begin_ns >= 10_000_000
    monkeypatch.setattr(recorder, "_LIMIT_S", 0.05)
    with pytest.raises(Unavailable, match="never still"):
        Painted(begin_ns + 10**12).until_still(begin_ns, 0.01)


# Beside three other files a browser may take a minute to begin.
@needs_programs
@pytest.mark.alone
def test_the_browser_shows_the_pictures_to_the_last_pixel(tmp_path):
    """Keys by xdotool reach the page under the window manager; Chromium reads our files."""
    number = 1000 + os.getpid() % 50_000
    server = ["Xtigervnc", f":{number}", "-displayfd", "1", "-nolisten", "unix", "-nolock"]
    server += ["-rfbport", "-1", "-SecurityTypes", "None", "-depth", "24"]
    server += ["-geometry", f"{card.WIDTH}x{card.HEIGHT}"]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    shown = page.write(tmp_path, card.WIDTH, card.HEIGHT, 7)
    (tmp_path / "twmrc").write_text(programs._TWM)
    display, running = f":{number}", []

    def start(command, **options):
        running.append(subprocess.Popen(command, **pipe, **options))
        return running[-1]

    try:
        start(server).stdout.readline()
        environment = programs._environment(display, tmp_path)
        start(["twm", "-f", str(tmp_path / "twmrc")], env=environment)
        start(programs.browsing(shown, tmp_path), env=environment)
        command = [sys.executable, "-m", "studies.rig.desktop.recorder", display]
        recording = start([*command, "127.0.0.1", "5300", page.TITLE], stdin=subprocess.PIPE)
        assert "ready" in recording.stdout.readline()
        found = seen_on(display)
        recording.stdin.write("i\n")
        recording.stdin.flush()
        assert '"key": "i"' in recording.stdout.readline()
        then = seen_on(display)
    finally:
        for one in reversed(running):
            one.terminate()
            one.wait(30)
            for end in (one.stdin, one.stdout):
                if end:
                    end.close()
    for at, seen in enumerate((found, then)):
        expected = pictures.picture(card.WIDTH, card.HEIGHT, pictures.ROUGHNESS[at], 7 + at)
        # Its window is a pixel smaller than the screen.
        assert (seen[:-1, :-1, :3] == expected[:-1, :-1, :3]).all()


def seen_on(name):
    from Xlib.display import Display

    with contextlib.closing(Display(name)) as display:
        return recorder.shown(display)


@needs_programs
@needs_lab
@pytest.mark.alone
def test_packets_tell_when_the_browsers_picture_was_there():
    found = programs.carry_out("ip", Line(), 3, name="desktop-programs")
    assert [one.key for one in found] == ["i", "p"]
    for one in found:
        assert not one.partial
        assert abs(one.error_s) < 1 / 60
        assert 0 < one.server < one.screen
        assert one.bytes > 100_000
    # The scene turns for 0.8 s; it is seen to.
    assert found[1].screen > 0.8
    assert found[1].frames > found[0].frames


@needs_programs
@needs_clip
@needs_lab
@pytest.mark.alone
def test_a_clip_plays_in_the_browser_and_fewer_frames_come_over_a_lossy_line():
    whole, slow = programs.carry_out("vs", Line(), 3, clip_s=2.0, name="desktop-clip")
    (lossy,) = programs.carry_out("v", Line(0.1), 3, clip_s=2.0, name="desktop-clip-lossy")
    assert [one.key for one in (whole, slow, lossy)] == ["v", "s", "v"]
    assert 1.9 < whole.server < 10
    assert slow.server > card.CLIP_FRAMES - 1
    # At a frame a second each is seen; what follows the last is the mark of the end.
    assert slow.frames >= card.CLIP_FRAMES - 1
    assert lossy.frames < whole.frames / 2
    assert lossy.clip_bytes < whole.clip_bytes / 2


@pytest.mark.skipif(programs.missing(RDP) is not None, reason=str(programs.missing(RDP)))
@needs_lab
@pytest.mark.alone
def test_packets_tell_when_the_browsers_picture_was_there_by_rdp():
    """Every pixel is the desktop's own: else the screen would never be there."""
    (found,) = programs.carry_out("i", Line(), 3, name="desktop-programs-rdp", protocol=RDP)
    assert abs(found.error_s) < 1 / 60
    assert 0 < found.server < found.screen
    assert found.bytes > 100_000


def test_what_is_packed_with_loss_is_no_screen_to_compare():
    with pytest.raises(BadInput, match="protocol rtp: vnc or rdp"):
        programs.carry_out("i", Line(), 1, protocol=RTP)


class Ended:
    """Programs of which one has ended."""

    def check(self):
        raise Unavailable("twm-0 on desktop ended with 1")


def test_no_task_begins_without_the_window_manager():
    desktop = object.__new__(programs._Programs)
    desktop._processes = Ended()
    with pytest.raises(Unavailable, match="twm-0"):
        desktop._begin(None, "i")
