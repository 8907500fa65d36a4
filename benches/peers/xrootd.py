"""XRootD: `xrdcp` to an `xrootd` server; pages carry CRC32C on the wire."""

from pathlib import Path

from benches.account import Command
from benches.peers.mover import MANY, Job, Mover, Protection


class Xrdcp(Mover):
    """`xrdcp` put, a file over N connections; trees with `-r --parallel 16`."""

    protection = Protection.CHECKSUM
    port = 1094

    def __init__(self, streams: int = 1) -> None:
        self._streams = streams
        self.name = "xrdcp" if streams == 1 else f"xrdcp -S {streams}"

    def prepare(self, scratch: Path) -> None:
        """Writes the configuration; the server refuses to be root, so its folders are nobody's."""
        self._scratch = scratch
        self._config = scratch / "xrootd.cfg"
        self._config.write_text(
            f"all.export /dev/shm\nxrd.port {self.port}\n"
            f"all.adminpath {scratch}/xrootd\nall.pidpath {scratch}/xrootd\n"
        )
        for folder in (scratch, scratch / "xrootd"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)

    def server(self, job: Job) -> Command:
        """The server as user nobody."""
        del job
        return Command(["xrootd", "-R", "nobody", "-c", str(self._config)])

    def client(self, job: Job) -> Command:
        """A file by its name; a tree into the folder that holds the target, under its own name."""
        url = f"root://{job.address}:{self.port}/"
        argv = ["xrdcp", "--silent", "--nopbar"]
        if job.data == MANY:
            target = f"{url}{job.target.parent}/"
            return Command([*argv, "-r", "--parallel", "16", str(job.source), target])
        argv += ["-S", str(self._streams)] if self._streams > 1 else []
        return Command([*argv, str(job.source), f"{url}{job.target}"])
