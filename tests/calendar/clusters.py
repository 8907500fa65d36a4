"""PostgreSQL clusters of the tests' own: made, killed, started, and one following another."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from calendar_lab import wait_for
from rig import free_port

USER = "weir"
PATIENCE_S = 120


class Cluster:
    """A cluster in a directory, run as user postgres where this is root.

    `durable` leaves what PostgreSQL does for that as it is; tests that cut no power need it not.
    `primary` is the cluster that it follows, which then waits for it with every commit.
    """

    def __init__(self, directory, *, durable=True, primary=None, port=None):
        binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        assert binaries, "PostgreSQL is not here: install the Debian package postgresql"
        self.binaries, self.directory, self.port = binaries[0], directory, port or free_port()
        self.as_user = []
        directory.mkdir(exist_ok=True)
        # Whoever runs it has to get there.
        directory.parent.chmod(0o755)
        if os.geteuid() == 0:
            self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
            shutil.chown(directory, "postgres", "postgres")
        self.data = directory / "data"
        if primary is None:
            quickly = [] if durable else ["--no-sync"]
            made = ("initdb", "-U", USER, "-E", "UTF8", "--auth=trust", *quickly)
        else:
            server = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", USER)
            made = ("pg_basebackup", *server, "-R", "-c", "fast")
        assert self.run(*made, "-D", self.data) == 0, self.log()
        self.start()
        if primary is not None:
            primary.wait_for_follower()

    @property
    def url(self):
        """Its server's URL, to which the name of a database is added."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/"

    def run(self, program, *arguments):
        """A program of PostgreSQL's; its exit status. Its output goes to a file.

        A server that inherited a pipe would hold it open.
        """
        command = [*self.as_user, self.binaries / program, *arguments]
        with (self.directory / "log").open("ab") as log:
            return subprocess.run(
                command, cwd="/", stdout=log, stderr=log, timeout=PATIENCE_S
            ).returncode

    def log(self):
        """What its programs have said."""
        return (self.directory / "log").read_text()

    def start(self):
        """Starts the server, again perhaps: a killed one's children may hold its memory a while."""
        options = f"-p {self.port} -k {self.directory} -h 127.0.0.1"
        log = self.directory / "server.log"
        start = ("pg_ctl", "-D", self.data, "-w", "-o", options, "-l", log, "start")
        wait_for(lambda: self.run(*start) == 0, PATIENCE_S, 0.2)

    def stop(self):
        """Stops it without ceremony."""
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "stop")

    def kill(self):
        """kill -9 of the server."""
        os.kill(self._server(), signal.SIGKILL)

    def pause(self):
        """Has the server and its children stand still; the kernel goes on answering for them."""
        os.kill(self._server(), signal.SIGSTOP)
        self._signal_children(signal.SIGSTOP)

    def resume(self):
        """Has them go on."""
        self._signal_children(signal.SIGCONT)
        os.kill(self._server(), signal.SIGCONT)

    def _signal_children(self, number):
        server = self._server()
        children = Path(f"/proc/{server}/task/{server}/children").read_text()
        for child in children.split():
            os.kill(int(child), number)

    def _server(self):
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def promote(self):
        """Makes a follower the one that can be written."""
        assert self.run("pg_ctl", "-D", self.data, "-w", "promote") == 0, self.log()

    def wait_for_follower(self):
        """From now on each commit waits until the follower has it, too."""
        import psycopg

        following = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        with psycopg.connect(f"{self.url}postgres", autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            wait_for(lambda: connection.execute(following).fetchone()[0], PATIENCE_S)
