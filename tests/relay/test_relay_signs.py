"""A relay tells its supervisor that it runs, which ends it where it does not (sd_notify(3))."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from linked_rig import PATIENCE_S, assert_reset, listening, relayed

from weir.relay.signs import Signs

WATCH_S = 1.0


@contextlib.contextmanager
def supervisor(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(path))
        told.settimeout(PATIENCE_S)
        yield told


def test_signs_are_given_where_they_are_asked_for_and_true(tmp_path):
    path = tmp_path / "notify"
    with supervisor(path) as told:
        asked = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "3000"}
        signs = Signs({**asked, "WATCHDOG_PID": str(os.getpid())})
        signs.ready()
        assert told.recv(100) == b"READY=1"
        signs.running(lambda: False)
        signs.running(lambda: True)
        # The next one is due in a millisecond, and the first one was not true.
        assert told.recv(100) == b"WATCHDOG=1"
        told.setblocking(False)
        for others in ({**asked, "WATCHDOG_PID": "1"}, {"NOTIFY_SOCKET": str(path)}, {}):
            Signs(others).running(lambda: True)
            with pytest.raises(BlockingIOError):
                told.recv(100)
    # Nobody listens any more, which is no fault of the relay's.
    Signs(asked).ready()


def test_signs_are_as_rare_as_the_supervisor_bears(tmp_path):
    path = tmp_path / "notify"
    with supervisor(path) as told:
        signs = Signs({"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "600000000"})
        signs.running(lambda: True)
        signs.running(lambda: True)
        assert told.recv(100) == b"WATCHDOG=1"
        told.setblocking(False)
        with pytest.raises(BlockingIOError):
            told.recv(100)


def watch(told: socket.socket, process: "subprocess.Popen[str]") -> None:
    """Kills whoever gives no sign in time."""
    told.settimeout(WATCH_S)
    with contextlib.suppress(TimeoutError):
        while told.recv(100):
            pass
    process.send_signal(signal.SIGKILL)


def test_clients_of_a_join_end_that_is_stopped_wait_no_longer_than_its_supervisor(
    tmp_path, monkeypatch
):
    path = tmp_path / "notify"
    monkeypatch.setenv("NOTIFY_SOCKET", str(path))
    monkeypatch.setenv("WATCHDOG_USEC", str(int(WATCH_S * 1e6)))
    with (
        supervisor(path) as told,
        listening() as listener,
        relayed(tmp_path, listener.getsockname()[1], None) as ends,
    ):
        with ends.client() as client, listener.accept()[0]:
            for _ in range(10):
                assert told.recv(100) in (b"READY=1", b"WATCHDOG=1")
            # The split end gives none, either: whoever is missed is the join end.
            for process in (ends.split, ends.join):
                process.send_signal(signal.SIGSTOP)
            watcher = threading.Thread(target=watch, args=(told, ends.join), daemon=True)
            watcher.start()
            assert_reset(client)
            watcher.join(PATIENCE_S)
        ends.split.send_signal(signal.SIGCONT)
        assert ends.join.wait(PATIENCE_S) == -signal.SIGKILL
