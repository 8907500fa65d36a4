"""scp to an sshd with keys of its own."""

from pathlib import Path

from benches.account import Command
from benches.peers.mover import MANY, Job, Mover, Protection, run_quietly


class Scp(Mover):
    """OpenSSH's `scp` (SFTP protocol), with its default cipher or a named one."""

    protection = Protection.ENCRYPTED
    port = 2222

    def __init__(self, cipher: str | None = None) -> None:
        self._cipher = cipher
        self.name = f"scp -c {cipher.split('@')[0]}" if cipher else "scp"

    def prepare(self, scratch: Path) -> None:
        """Makes the host key, the user's key and the configuration of sshd."""
        self._folder = scratch / self.name.replace(" ", "_")
        self._folder.mkdir(mode=0o700)
        for key in ("host", "user"):
            path = str(self._folder / key)
            run_quietly("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path)
        (self._folder / "sshd_config").write_text(
            f"Port {self.port}\nHostKey {self._folder}/host\nPidFile none\nStrictModes no\n"
            f"AuthorizedKeysFile {self._folder}/user.pub\nPermitRootLogin prohibit-password\n"
            "PasswordAuthentication no\nUsePAM no\nSubsystem sftp internal-sftp\n"
        )
        # sshd wants this folder, which its package's service makes at boot.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)

    def server(self, job: Job) -> Command:
        """The daemon, in the foreground."""
        del job
        return Command(["/usr/sbin/sshd", "-D", "-e", "-f", str(self._folder / "sshd_config")])

    def client(self, job: Job) -> Command:
        """A file, or a tree with -r, which makes its target."""
        options = ["-q", "-F", "none", "-P", str(self.port), "-i", str(self._folder / "user")]
        options += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        options += ["-c", self._cipher] if self._cipher else []
        options += ["-r"] if job.data == MANY else []
        return Command(["scp", *options, str(job.source), f"root@{job.address}:{job.target}"])
