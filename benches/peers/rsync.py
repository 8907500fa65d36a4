"""rsync to its own daemon: whole files, in place, no encryption.

rsync compares a checksum of every whole file it has received (xxh128 unless both ends lack it),
so it checks content end to end; the checksum is not a cryptographic one.
"""

from pathlib import Path

from benches.account import Command
from benches.peers.mover import MANY, Job, Mover, Protection


class RsyncDaemon(Mover):
    """`rsync -W --inplace` to `rsync --daemon`."""

    name = "rsync daemon"
    protection = Protection.CHECKSUM
    port = 8730

    def prepare(self, scratch: Path) -> None:
        """Writes a configuration with one module over the whole file system of the hosts."""
        self._config = scratch / "rsyncd.conf"
        self._config.write_text(
            "use chroot = no\nuid = 0\ngid = 0\n[files]\npath = /dev/shm\nread only = no\n"
        )

    def server(self, job: Job) -> Command:
        """The daemon, in the foreground."""
        del job
        return Command(
            [
                *("rsync", "--daemon", "--no-detach"),
                *(f"--config={self._config}", f"--port={self.port}"),
            ]
        )

    def client(self, job: Job) -> Command:
        """A file, or a tree with -r."""
        end = "/" if job.data == MANY else ""
        target = f"rsync://{job.address}:{self.port}/files/{job.target.relative_to('/dev/shm')}"
        recurse = ["-r"] if job.data == MANY else []
        return Command(
            ["rsync", "-W", "--inplace", *recurse, f"{job.source}{end}", f"{target}{end}"]
        )
