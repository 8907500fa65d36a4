"""Real `weir` processes for the tests of the mover."""

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from rig import PATIENCE_S, WEIR, free_port


class Serve:
    """A `weir serve` process that can be killed and started again on the same port."""

    def __init__(self, *arguments: str, listen: str | None = None, env=None) -> None:
        self.arguments = arguments
        self.env = env
        self.listen = listen or f"127.0.0.1:{free_port()}"
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [WEIR, "serve", "--listen", self.listen, "--json", *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env,
        )
        ready, _, _ = select.select([self.process.stdout], [], [], 60)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.process.kill()
            raise RuntimeError(f"the server did not start: {self.process.stderr.read()}")
        event = json.loads(line)
        # The next start is on the same port, whoever chose it.
        self.listen = f"{event['host']}:{event['port']}"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.reap()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.reap()

    def reap(self) -> None:
        self.process.communicate(timeout=60)


def weir(*arguments: str | Path, timeout: float = 120, **options) -> subprocess.CompletedProcess:
    """Runs a `weir` command to its end."""
    command = [WEIR, *map(os.fspath, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=timeout,
        **options,
    )


def poll(condition, seconds: float = PATIENCE_S):
    """The condition's first true value, within a bound."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"not true within {seconds} s: {condition}")


def leftovers(directory: Path) -> list[Path]:
    """Files in progress that a transfer left behind."""
    return list(directory.rglob(".weir-*"))


def flip(path: Path, offset: int) -> None:
    """Changes one byte and nothing else: size and times stay."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
