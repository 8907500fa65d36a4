"""GridFTP: Debian's globus packages, anonymous, no data-channel security."""

from benches.account import Command
from benches.peers.mover import MANY, ONE, Job, Mover, Protection


class GridFtp(Mover):
    """`globus-url-copy -fast` (extended block mode, data channels kept) on N data connections."""

    protection = Protection.NONE
    port = 2811

    def __init__(self, parallel: int = 1) -> None:
        self._parallel = parallel
        self.data = (ONE, MANY) if parallel == 1 else (ONE,)
        self.name = "GridFTP" if parallel == 1 else f"GridFTP -p {parallel}"

    def server(self, job: Job) -> Command:
        """Serves anonymously as root; the interface must be given, or it asks the resolver."""
        return Command(
            [
                *("globus-gridftp-server", "-aa", "-anonymous-user", "root", "-allow-root"),
                *("-port", str(self.port), "-control-interface", job.address),
                *("-data-interface", job.address, "-log-level", "ERROR"),
            ]
        )

    def client(self, job: Job) -> Command:
        """One file; or a tree with pipelining and eight concurrent sessions."""
        end = "/" if job.data == MANY else ""
        argv = ["globus-url-copy", "-fast", "-q"]
        if self._parallel > 1:
            argv += ["-p", str(self._parallel)]
        if job.data == MANY:
            argv += ["-r", "-cd", "-pp", "-cc", "8"]
        url = f"ftp://{job.address}:{self.port}{job.target}{end}"
        return Command([*argv, f"file://{job.source}{end}", url])
