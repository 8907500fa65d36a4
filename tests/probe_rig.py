"""What the tests of probing share: labs, the command."""

import contextlib
import json
import subprocess

from rig import WEIR, until

from weir.lab import Lab, parse

PORT = 7412


def pair(name, **keys):
    """A scenario of two hosts and one link."""
    lines = "\n".join(f"{key} = {value}" for key, value in keys.items())
    hosts = "[hosts]\na = {}\nb = {}"
    return parse(f'[lab]\nname = "{name}"\n{hosts}\n[[link]]\nends = ["a", "b"]\n{lines}\n')


class Pair:
    """A lab of two hosts, with a responder on b if wanted; a probes it."""

    def __init__(self, stack, scenario, serve=False):
        self.lab = stack.enter_context(Lab.up(scenario))
        if serve:
            command = [WEIR, "probe", "--serve", str(PORT), "--json"]
            responder = self.lab.popen("b", command, stdout=subprocess.PIPE, text=True)
            stack.enter_context(responder)
            stack.callback(responder.terminate)
            assert json.loads(responder.stdout.readline())["port"] == PORT

    def probe(self, *words):
        """Probes b; the samples, and what was found at the end."""
        command = [WEIR, "probe", "b", "--json", *map(str, words)]
        done = self.lab.run("a", command, check=False, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        samples = [event for event in events if event["event"] == "sample"]
        assert events[0]["event"] == "start"
        assert events[-1]["event"] == "done"
        return samples, events[-1]

    @contextlib.contextmanager
    def cubic_background(self):
        """A CUBIC flow from a to b, once it has filled the queue to overflowing."""
        with contextlib.ExitStack() as stack:
            pipe = {"stdout": subprocess.PIPE, "text": True}
            serve = ["iperf3", "-4", "-s", "-1", "--forceflush"]
            server = stack.enter_context(self.lab.popen("b", serve, **pipe))
            stack.callback(server.kill)
            assert any("listening" in line for line in server.stdout)
            ask = ["iperf3", "-c", "b", "-C", "cubic", "-t", "60"]
            quiet = subprocess.DEVNULL
            client = stack.enter_context(self.lab.popen("a", ask, stdout=quiet))
            stack.callback(client.kill)
            until(lambda: self.forward()["dropped_queue"] > 0)
            yield

    def forward(self):
        """The link from a to b, as the emulator counts."""
        return self.lab.status()["links"][0]["forward"]
