"""The contract between the mover benchmark and one way of running one program."""

import enum
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from benches.account import Command
from benches.testbed import FILES
from weir.errors import Unsupported


class Protection(enum.Enum):
    """What a mover does about bytes that change on their way from file to file."""

    NONE = "none"
    """Nothing beyond TCP's own checksum."""
    CHECKSUM = "checksum"
    """The content is checked end to end, against accidents."""
    ENCRYPTED = "encrypted"
    """Encrypted and authenticated, so checked against an attacker too."""


ONE = "one"
MANY = "many"


@dataclass(frozen=True)
class Job:
    """One transfer: what, from where to where. Paths are as programs inside see them."""

    data: str
    """`ONE` file or `MANY` in a tree."""
    source: Path
    """The file, or the tree's top."""
    target: Path
    """Where it must be afterwards; its folder exists and is empty."""
    address: str
    """The server's."""
    bytes: int
    """Content in total."""


class Mover(ABC):
    """One program, run in one way."""

    name: str
    protection: Protection
    port: int
    data: tuple[str, ...] = (ONE, MANY)
    pull: bool = False
    """Whether the server has the file and the client fetches it."""
    ends_with_server: bool = False
    """Whether the file is complete only when the one-shot server has exited."""
    expected_intact: bool = True

    def prepare(self, scratch: Path) -> None:
        """Makes keys and configuration in `scratch`, once, before the first job."""
        del scratch

    @abstractmethod
    def server(self, job: Job) -> Command:
        """The server for one job; started, and listening, before the clock is."""

    @abstractmethod
    def client(self, job: Job) -> Command:
        """The client, whose start starts the clock and whose exit stops it."""


def seen_from_outside(path: Path, files: Path) -> Path:
    """A path of the hosts, for this process, which is outside: for redirections."""
    return files / path.relative_to(FILES)


def run_quietly(*argv: str) -> None:
    """Runs a preparation such as making a key; raises Unsupported with what it said."""
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode != 0:
        raise Unsupported(f"{' '.join(argv)}: {answer.stderr.strip() or answer.stdout.strip()}")
