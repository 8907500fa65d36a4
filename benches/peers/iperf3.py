"""iperf3 -F: a measuring tool that many use to move files; it does not promise them whole."""

from benches.account import Command
from benches.peers.mover import ONE, Job, Mover, Protection


class Iperf3File(Mover):
    """`iperf3 -F` at both ends; it ends before the receiver has written everything."""

    name = "iperf3 -F"
    protection = Protection.NONE
    port = 5201
    data = (ONE,)
    expected_intact = False

    def server(self, job: Job) -> Command:
        """A one-shot server that writes what it receives."""
        return Command(["iperf3", "-s", "-1", "-F", str(job.target)])

    def client(self, job: Job) -> Command:
        """Sends exactly the file's length."""
        return Command(["iperf3", "-c", job.address, "-F", str(job.source), "-n", str(job.bytes)])
