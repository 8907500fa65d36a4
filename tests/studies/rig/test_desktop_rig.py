"""The test card, the screen that reads it, and both over a lossy line."""

import contextlib
import io
import os
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import zlib
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import pytest
from rig import free_port, lab_lacks

from studies.rig.desktop import (
    call,
    card,
    gstreamer,
    lossy,
    pictures,
    rdp,
    rfb,
    rtp,
    spoken,
    viewer,
)
from studies.rig.desktop.lossy import Line
from studies.rig.desktop.screen import run_at_once
from studies.rig.workspace import open_workspace
from weir.errors import Unavailable
from weir.lab import rundir
from weir.observe.desktop import speech
from weir.observe.desktop.capture import Packet
from weir.observe.desktop.dut import Task

needs_lab = pytest.mark.skipif(lab_lacks() is not None, reason=str(lab_lacks()))
needs_gstreamer = pytest.mark.skipif(rtp.missing() is not None, reason=str(rtp.missing()))
needs_desktop = pytest.mark.skipif(lossy.missing() is not None, reason=str(lossy.missing()))


def test_what_is_sent_when_the_last_task_is_over_is_not_its_own():
    """RDP takes its leave 2.4 s after the last picture, which a GAP of 10 s took for part of it."""
    ends = ip_address("10.0.0.1"), ip_address("10.0.0.2")
    ms = 1_000_000
    sent = [Packet(at * ms, 900, *ends, 6) for at in (100, 200, 2600)]
    shown = {"key": "p", "begin_ns": 0, "end_ns": 50 * ms}
    told = {"whole_ns": 201 * ms, "waited_ns": 0, "frames": 1}
    for over_ms, last_s in ((2500, 0.2), (2700, 2.6)):
        seen = [lossy.Seen(shown, told, over_ms * ms)]
        rule = lossy.RULES[lossy.RDP]
        (found,) = lossy._joined(seen, sent, [Task(0)], rule, 2600 * ms)
        assert (found.dut, found.patient_dut) == (0.2, last_s)


@pytest.mark.parametrize("number", [1, 0x0F0, 0xABC, 4095])
def test_a_stamp_is_read_from_every_tile_even_when_colours_are_a_little_off(number):
    shown = pictures.picture(128, 96, 1.6, 1)
    pictures.stamp(shown, number)
    off = np.random.default_rng(1).integers(-15, 16, shown.shape)
    found = pictures.numbers(np.clip(shown + off, 0, 255).astype(np.uint8))
    assert found.tolist() == [number] * (4 * 3)


def test_a_pixel_that_a_codec_leaves_wrong_is_not_the_number():
    """VP8 at the quality of `rtp` left one at 31 instead of 48, and the screen behind for good."""
    shown = pictures.picture(128, 96, 1.6, 1)
    pictures.stamp(shown, 1)
    for place in range(8):
        off = shown.copy()
        off[32 + place, 64 + 24 + place, :3] = 31
        assert pictures.numbers(off).tolist() == [1] * 12


@pytest.mark.parametrize("corner", [(0, 0), (0, 24), (24, 0), (24, 24)])
def test_a_tile_of_which_a_corner_is_old_is_seen(corner):
    shown = pictures.picture(128, 96, 1.6, 1)
    pictures.stamp(shown, 7)
    old = shown.copy()
    pictures.stamp(shown, 8)
    down, right = 32 + corner[0], 64 + corner[1]
    shown[down : down + 8, right : right + 8] = old[down : down + 8, right : right + 8]
    found = pictures.numbers(shown).tolist()
    assert found[:6] + found[7:] == [8] * 11
    assert found[6] != 8


def test_rough_pictures_have_more_to_send():
    sizes = [
        len(zlib.compress(pictures.picture(320, 256, one, 3).tobytes(), 6))
        for one in pictures.ROUGHNESS
    ]
    assert sizes == sorted(sizes)
    shown = pictures.picture(64, 32, 1.5, 1)
    assert (pictures.unpacked(pictures.stored(shown), 64, 32) == shown).all()


class Served:
    """A screen beside a server that says what a test wants."""

    def __init__(self, width, height):
        self.ours, self.server = socket.socketpair()
        greeting = b"RFB 003.008\n" + b"\1\1" + bytes(4)
        name = b"test"
        self.server.sendall(greeting + struct.pack(">HH16xI", width, height, len(name)) + name)
        self.changes = 0
        self.screen = rfb.Screen(self.ours, self._changed)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.screen.close()
        self.server.close()

    def _changed(self):
        self.changes += 1

    def update(self, *rectangles):
        content = b"".join(
            struct.pack(">HHHHi", *place, encoding) + data for place, encoding, data in rectangles
        )
        self.server.sendall(struct.pack(">BxH", 0, len(rectangles)) + content)
        self.screen.take()


def packed(content, stream):
    data = stream.compress(content) + stream.flush(zlib.Z_SYNC_FLUSH)
    length = len(data)
    head = [length & 0x7F | (0x80 if length > 0x7F else 0)]
    if length > 0x7F:
        head.append(length >> 7 & 0x7F | (0x80 if length > 0x3FFF else 0))
    if length > 0x3FFF:
        head.append(length >> 14)
    return bytes(head) + data


def test_all_of_tights_ways_are_painted():
    with Served(300, 200) as served:
        paint_all_ways(served, np.random.default_rng(4))


def paint_all_ways(served, random):
    stream = zlib.compressobj()
    shown = random.integers(0, 256, (200, 300, 3), np.uint8)
    served.update(((0, 0, 300, 200), 7, b"\0" + packed(shown.tobytes(), stream)))
    assert (served.screen.pixels[:, :, 2::-1] == shown).all()
    # A second time with the same stream, a fill, a palette of three, one of two, a tiny one.
    palette = random.integers(0, 256, (3, 3), np.uint8)
    chosen = random.integers(0, 3, (10, 20), np.uint8)
    bits = random.integers(0, 2, (6, 13), np.uint8)
    tiny = bytes(range(9))
    served.update(
        ((0, 0, 10, 10), 7, b"\0" + packed(shown[:10, :10].tobytes(), stream)),
        ((20, 0, 5, 5), 7, b"\x80\1\2\3"),
        (
            (40, 0, 20, 10),
            7,
            b"\x50\1\2" + palette.tobytes() + packed(chosen.tobytes(), zlib.compressobj()),
        ),
        (
            (80, 0, 13, 6),
            7,
            b"\x60\1\1"
            + palette[:2].tobytes()
            + packed(np.packbits(bits, 1).tobytes(), zlib.compressobj()),
        ),
        ((120, 0, 3, 1), 7, b"\0" + tiny),
        ((150, 0, 20, 10), 1, struct.pack(">HH", 40, 0)),
        ((200, 0, 2, 1), 0, b"\1\2\3\0\4\5\6\0"),
    )
    seen = served.screen.pixels[:, :, 2::-1]
    assert seen[4, 24].tolist() == [1, 2, 3]
    assert (seen[:10, 40:60] == palette[chosen]).all()
    assert (seen[:6, 80:93] == palette[bits]).all()
    assert seen[0, 120:123].tobytes() == tiny
    assert (seen[:10, 150:170] == palette[chosen]).all()
    assert seen[0, 200].tolist() == [3, 2, 1]
    assert served.changes == 8


def test_fences_are_answered_and_continuous_updates_taken():
    with Served(4, 4) as served:
        served.server.recv(4096)
        served.server.sendall(struct.pack(">B3xIB", 248, 1 << 31 | 5, 3) + b"abc")
        served.screen.take()
        assert served.server.recv(100) == struct.pack(">B3xIB", 248, 5, 3) + b"abc"
        served.server.sendall(b"\x96")
        served.screen.take()
        assert served.server.recv(100) == struct.pack(">BBHHHH", 150, 1, 0, 0, 4, 4)


@pytest.mark.parametrize(
    ("rectangle", "words"),
    [
        (((0, 0, 1, 1), 7, b"\x90\0"), "JPEG"),
        (((0, 0, 1, 1), 5, b""), "encoding 5"),
        (((0, 0, 4, 4), 7, b"\x40\2"), "filter 2"),
    ],
)
def test_what_was_not_asked_for_is_refused(rectangle, words):
    with Served(4, 4) as served, pytest.raises(Unavailable, match=words):
        served.update(rectangle)


def test_a_server_that_goes_away_is_told():
    with Served(4, 4) as served:
        served.server.close()
        with pytest.raises(Unavailable, match="went away"):
            served.screen.take()


@needs_desktop
def test_tigervnc_shows_the_cards_picture_to_the_last_pixel():
    port = free_port()
    # A server that looks for a free display takes that of another in a lab.
    number = 1000 + os.getpid() % 50_000
    command = ["Xtigervnc", f":{number}", "-displayfd", "1", "-rfbport", str(port), "-localhost"]
    command += ["-SecurityTypes", "None", "-geometry", f"{card.WIDTH}x{card.HEIGHT}"]
    command += ["-nolisten", "unix", "-nolock"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([*command, "-depth", "24"], **pipes) as server:
        try:
            display = f":{server.stdout.readline().strip()}"
            module = [sys.executable, "-m", "studies.rig.desktop.card"]
            with subprocess.Popen(
                [*module, display, "127.0.0.1", "5300", "5", "1"], **pipes
            ) as program:
                assert program.stdout.readline()
                shown = first_picture(port)
                program.kill()
        finally:
            server.terminate()
    expected = pictures.picture(card.WIDTH, card.HEIGHT, pictures.ROUGHNESS[0], 5)
    pictures.stamp(expected, 1)
    assert (shown == expected[:, :, :3]).all()


def first_picture(port):
    connection = socket.create_connection(("127.0.0.1", port), 30)
    with contextlib.closing(rfb.Screen(connection, lambda: None)) as screen:
        screen.take()
        screen.key("i")
        while set(pictures.numbers(screen.pixels).tolist()) != {1}:
            screen.take()
        return screen.pixels[:, :, :3]


class Still:
    """A screen on which nothing ever changes."""

    def __init__(self, changed):
        self.pixels = np.zeros((card.HEIGHT, card.WIDTH, 4), np.uint8)
        self.pressed = []

    def key(self, character):
        self.pressed.append(character)

    def take(self):
        threading.Event().wait()


def test_a_screen_that_stays_behind_ends_no_plan(monkeypatch):
    monkeypatch.setattr("studies.rig.desktop.screen.LIMIT_S", 0.1)
    watched = viewer.Viewer(Still)
    for key in "ip":
        shown = watched.press(key, lambda: 3, 2.3)
        assert (shown["number"], shown["whole_ns"], shown["frames"]) == (3, None, 0)


class Gone(Still):
    """A screen whose server goes away."""

    def take(self):
        raise Unavailable("the server went away")


@pytest.mark.parametrize(
    "waits", [lambda one: one.until_there(), lambda one: one.press("i", int, 1)]
)
def test_a_plan_ends_with_the_server(waits):
    with pytest.raises(Unavailable, match="went away"):
        waits(viewer.Viewer(Gone))


class Placed(Still):
    """A screen that says how the thread is scheduled that follows it."""

    found = None

    def take(self):
        if Placed.found is None:
            Placed.found = os.sched_getscheduler(0)
        super().take()


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: no program may run before others")
def test_a_screen_does_not_wait_for_others_programs():
    Placed.found, ours = None, os.sched_getscheduler(0)
    viewer.Viewer(Placed)
    for _ in range(500):
        if Placed.found is not None:
            break
        threading.Event().wait(0.02)
    assert Placed.found == os.SCHED_RR
    # Nobody else in this program does.
    assert os.sched_getscheduler(0) == ours


def test_without_the_privilege_a_screen_waits_like_others(monkeypatch):
    def refuse(pid, policy, param):
        raise PermissionError

    ours = os.sched_getscheduler(0)
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    run_at_once()
    assert os.sched_getscheduler(0) == ours


@needs_desktop
@pytest.mark.alone
@needs_lab
def test_packets_tell_when_the_screen_was_up_to_date():
    told = []
    found = lossy.carry_out("iiii", Line(0.03), 3, told.append, name="desktop-test")
    assert told == list("iiii")
    for one in found:
        assert not one.partial
        assert abs(one.error_s) < 1 / 60
        assert one.server < one.screen
        assert one.bytes > 100_000


@needs_desktop
@pytest.mark.skipif(rdp.missing() is not None, reason=str(rdp.missing()))
@needs_lab
@pytest.mark.alone
def test_rdp_shows_the_card_and_its_packets_tell_when():
    found = lossy.carry_out("ii", Line(), 3, name="desktop-rdp", protocol=lossy.RDP)
    for one in found:
        assert not one.partial
        assert -0.1 < one.error_s < 1 / 60
        assert one.server < one.screen
        assert one.bytes > 100_000


def test_what_is_missing_of_rdp_is_named(monkeypatch):
    monkeypatch.setattr(rdp.shutil, "which", lambda program: None)
    assert "apt-get install xrdp" in rdp.missing()


@needs_desktop
@needs_gstreamer
@needs_lab
@pytest.mark.alone
def test_udp_repairs_itself_and_its_packets_tell_when():
    found = lossy.carry_out("iii", Line(0.05), 3, name="desktop-udp", protocol=lossy.RTP)
    for one in found:
        assert not one.partial
        # The picture is decoded behind its last packet.
        assert -0.1 < one.error_s < 1 / 60
        assert one.server < one.screen
        assert one.packets > 10


@needs_gstreamer
@needs_lab
def test_a_call_is_heard_as_it_was_said():
    said = call.speech("male", 2.0, 1)
    (heard,) = spoken.heard([said], Line(), 1, name="desktop-call")
    found = speech.quality(said, heard, call.RATE)
    assert found.score > 4
    silent = speech.quality(said, np.zeros(len(said)) + 1e-6, call.RATE)
    assert silent.score < 2


def test_losses_in_bursts_have_the_share_that_was_asked_for():
    lost = Line(0.03, burst=5.0).direction().loss
    assert lost.p / (lost.p + lost.r) == pytest.approx(0.03)
    assert 1 / lost.r == pytest.approx(5)
    assert Line(0.03).direction().loss.probability == 0.03
    assert Line().direction().loss is None


def test_frames_that_change_nothing_are_not_told():
    frame = bytes(card.WIDTH * card.HEIGHT * 4)
    other = b"\1" + frame[1:]
    told = []
    with socket.create_server(("127.0.0.1", 0)) as hand:
        frames = io.BytesIO(frame + frame + other + other[:9])
        port = hand.getsockname()[1]
        screen = rtp.Screen("127.0.0.1", port, frames, lambda: told.append(screen.pixels[0, 0, 0]))
        with contextlib.closing(screen):
            for _ in range(3):
                screen.take()
            with pytest.raises(Unavailable, match="ended"):
                screen.take()
            screen.key("i")
            connection, _ = hand.accept()
            assert connection.recv(1) == b"i"
            connection.close()
    assert told == [0, 1]
    with pytest.raises(Unavailable, match="nobody takes keys"):
        rtp.Screen("127.0.0.1", port, io.BytesIO(), lambda: None)


def test_what_is_missing_of_gstreamer_is_named(monkeypatch):
    monkeypatch.setattr(gstreamer.shutil, "which", lambda program: None)
    assert "apt-get install gstreamer1.0-tools" in rtp.missing()


@needs_desktop
@needs_lab
def test_what_a_killed_run_leaves_is_cleared_by_the_next():
    """No file of its display is ever there; its folder goes with the next run's begin."""
    number = lossy._FIRST_DISPLAY + os.getpid() % lossy._DISPLAYS
    script = f"""
        import contextlib
        from studies.rig.desktop import lossy

        @contextlib.contextmanager
        def told(need_bytes, opened=lossy.open_workspace):
            with opened(need_bytes) as folder:
                print(folder, flush=True)
                yield folder

        lossy.open_workspace = told
        lossy.secrets.randbelow = lambda most: {number - lossy._FIRST_DISPLAY}
        line = lossy.Line()
        lossy.carry_out("i" * 40, line, 1, lambda key: print(key, flush=True), name="desktop-kill")
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        try:
            folder = Path(run.stdout.readline().strip())
            assert run.stdout.readline() == "i\n"
            assert (folder / "screen.pcap").exists()
        finally:
            run.kill()
    assert rundir.wait_until_dead("desktop-kill", 60)
    left = [f"/tmp/.X11-unix/X{number}", f"/tmp/.X{number}-lock"]
    assert not [one for one in left if Path(one).exists()]
    with open_workspace(1):
        assert not folder.exists()
