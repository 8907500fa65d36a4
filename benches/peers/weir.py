"""Weir's own mover, in its three protections."""

import sys
from pathlib import Path

from benches.account import Command
from benches.peers.mover import MANY, Job, Mover, Protection, run_quietly
from benches.testbed import FILES

WEIR = str(Path(sys.executable).with_name("weir"))


class Weir(Mover):
    """`weir send` to `weir serve`."""

    port = 7400

    def __init__(self, protection: Protection) -> None:
        self.protection = protection
        self.name = {
            Protection.NONE: "Weir, hashing off",
            Protection.CHECKSUM: "Weir, BLAKE3",
            Protection.ENCRYPTED: "Weir, TLS and BLAKE3",
        }[protection]

    def prepare(self, scratch: Path) -> None:
        """Makes the keys that TLS needs."""
        self._keys = scratch / "weir-keys"
        if self.protection is Protection.ENCRYPTED and not self._keys.exists():
            run_quietly(WEIR, "keys", "init", str(self._keys))

    def _security(self) -> list[str]:
        if self.protection is Protection.ENCRYPTED:
            return ["--keys", str(self._keys)]
        return ["--insecure"]

    def server(self, job: Job) -> Command:
        """Serves the folder of the target."""
        root = ["--root", f"files={FILES}", "--listen", f"{job.address}:{self.port}"]
        return Command([WEIR, "serve", *root, *self._security()])

    def client(self, job: Job) -> Command:
        """Puts the file under the target's name, or the tree, under its own, beside it."""
        place = job.target.parent if job.data == MANY else job.target
        target = f"{job.address}:{self.port}/files/{place.relative_to(FILES)}"
        options = [*self._choices(job), *self._security()]
        return Command([WEIR, "send", str(job.source), target, *options])

    def _choices(self, job: Job) -> list[str]:
        """What the command chooses beside what to send and where to."""
        is_hashed = self.protection is not Protection.NONE
        # As with the peers, what was best here. Each stream has a thread of the receiver's: a file
        # that is hashed is limited by its processor, many files by its system calls.
        streams = 2 if is_hashed or job.data == MANY else 1
        return ["--hash", "blake3" if is_hashed else "none", "--streams", str(streams)]


class WeirSend(Weir):
    """`weir send` with these options and no other, BLAKE3 as always, without TLS."""

    def __init__(self, *options: str) -> None:
        super().__init__(Protection.CHECKSUM)
        self.name = " ".join(("weir send", *options))
        self._options = options

    def _choices(self, job: Job) -> list[str]:
        del job
        return list(self._options)
