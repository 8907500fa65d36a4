"""A calendar on loopback with an agent at each end, as processes, without a lab."""

import os
import signal
import subprocess

from calendar_lab import CalendarProcess, wait_for
from rig import PATIENCE_S, WEIR, free_port

OVER = {"completed", "failed", "cancelled"}


class Pair:
    """dtn1 sends and dtn3 receives; each has a directory of its name.

    dtn3 is reached by `name`; dtn1's agent is started by the command `wrap`.
    """

    def __init__(self, directory, name="127.0.0.1", wrap=()):
        self.directory, self.name, self.wrap = directory, name, wrap
        self.calendar = CalendarProcess(directory).start()
        self.agents = {}
        for host in ("dtn1", "dtn3"):
            (directory / host).mkdir()
            self.start_agent(host)
        self.wait_alive()

    def command(self, host):
        command = [WEIR, "agent", "-v", "--host", host, "--root", self.directory / host]
        if host == "dtn1":
            return [*self.wrap, *command, "--insecure"]
        port = free_port()
        listen = ["--data-listen", f"127.0.0.1:{port}", "--advertise", f"{self.name}:{port}"]
        return [*command, "--insecure", *listen]

    def start_agent(self, host):
        known = {
            "WEIR_CALENDAR_URL": self.calendar.url,
            "WEIR_CALENDAR_TOKEN": self.calendar.token,
        }
        with (self.directory / f"{host}.log").open("ab") as log:
            self.agents[host] = subprocess.Popen(
                self.command(host),
                env=os.environ | known,
                stdout=log,
                stderr=log,
            )

    def wait_alive(self):
        def alive():
            with self.calendar.client() as client:
                nodes = client.network()["nodes"]
            return sum(node["agent"] == "alive" for node in nodes) == len(self.agents)

        wait_for(alive)

    def stop_agent(self, host, number=signal.SIGKILL):
        agent = self.agents.pop(host)
        agent.send_signal(number)
        return agent.wait(PATIENCE_S)

    def close(self):
        for agent in self.agents.values():
            agent.kill()
            agent.wait()
        self.calendar.stop()

    def log(self, host):
        return (self.directory / f"{host}.log").read_text()

    def submit(self, name, deadline_s=60.0, **more):
        body = {
            "source": "dtn1",
            "source_path": name,
            "destination": "dtn3",
            "destination_path": f"in/{name}",
            "deadline_s": deadline_s,
        }
        with self.calendar.client() as client:
            return client.submit(body | more)

    def show(self, identifier):
        with self.calendar.client() as client:
            return client.show(identifier)

    def finished(self, identifier, timeout_s=PATIENCE_S):
        def over():
            shown = self.show(identifier)
            return shown if shown["state"] in OVER else None

        return wait_for(over, timeout_s, 0.05)

    def received(self, name):
        return self.directory / "dtn3" / "in" / name
