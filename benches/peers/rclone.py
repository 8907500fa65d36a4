"""rclone against its own servers: fetching over HTTP, putting over SFTP."""

from pathlib import Path

from benches.account import Command
from benches.peers.mover import MANY, ONE, Job, Mover, Protection, run_quietly

# No configuration file of the user's, no progress output.
_COMMON = ["--config", "/dev/null", "--log-level", "ERROR"]
_TRANSFERS = 16


class RcloneHttp(Mover):
    """`rclone copy` from `rclone serve http`, N streams for a file, 16 files at a time."""

    protection = Protection.NONE
    port = 8080
    pull = True

    def __init__(self, streams: int) -> None:
        self._streams = streams
        self.data = (ONE, MANY) if streams > 1 else (ONE,)
        self.name = f"rclone http, {streams} streams" if streams > 1 else "rclone http"

    def server(self, job: Job) -> Command:
        """Serves the folder of the source."""
        top = job.source if job.data == MANY else job.source.parent
        address = f"{job.address}:{self.port}"
        return Command(["rclone", "serve", "http", str(top), "--addr", address, *_COMMON])

    def client(self, job: Job) -> Command:
        """Fetches by name."""
        url = ["--http-url", f"http://{job.address}:{self.port}"]
        if job.data == MANY:
            transfers = ["--transfers", str(_TRANSFERS), "--checkers", str(_TRANSFERS)]
            return Command(
                ["rclone", "copy", ":http:", str(job.target), *url, *transfers, *_COMMON]
            )
        streams = ["--multi-thread-streams", str(self._streams), "--multi-thread-cutoff", "1M"]
        source = f":http:{job.source.name}"
        return Command(["rclone", "copyto", source, str(job.target), *url, *streams, *_COMMON])


class RcloneSftp(Mover):
    """`rclone copy` to `rclone serve sftp`; it compares a hash of the file afterwards."""

    name = "rclone sftp"
    protection = Protection.ENCRYPTED
    port = 2022

    def prepare(self, scratch: Path) -> None:
        """Makes the host key and the user's key."""
        self._host_key, self._user_key = scratch / "rclone_host", scratch / "rclone_user"
        for key in (self._host_key, self._user_key):
            run_quietly("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))

    def server(self, job: Job) -> Command:
        """Serves the folder that will hold the target."""
        return Command(
            [
                *("rclone", "serve", "sftp", str(job.target.parent), *_COMMON),
                *("--addr", f"{job.address}:{self.port}", "--key", str(self._host_key)),
                *("--authorized-keys", f"{self._user_key}.pub"),
            ]
        )

    def client(self, job: Job) -> Command:
        """Puts by name."""
        verb = "copy" if job.data == MANY else "copyto"
        return Command(
            [
                *("rclone", verb, str(job.source), f":sftp:{job.target.name}", *_COMMON),
                *("--sftp-host", job.address, "--sftp-port", str(self.port)),
                *("--sftp-user", "bench", "--sftp-key-file", str(self._user_key)),
                *("--transfers", str(_TRANSFERS)),
            ]
        )
