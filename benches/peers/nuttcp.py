"""nuttcp carrying a file from standard input to standard output."""

from benches.account import Command
from benches.peers.mover import ONE, Job, Mover, Protection


class Nuttcp(Mover):
    """`nuttcp -t -s < file` to `nuttcp -r -s > file`; it has no notion of many files."""

    name = "nuttcp"
    protection = Protection.NONE
    port = 5000
    data = (ONE,)
    ends_with_server = True

    def server(self, job: Job) -> Command:
        """A one-shot receiver: its exit says that the file is complete."""
        return Command(["nuttcp", "-r", "-s", "--nofork"], stdout=job.target)

    def client(self, job: Job) -> Command:
        """The transmitter."""
        return Command(["nuttcp", "-t", "-s", job.address], stdin=job.source)
