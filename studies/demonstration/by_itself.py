"""The carrier of the plain half: every file is sent at once, and TCP shares the links."""

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from studies.demonstration.run_state import Flow, RunState
from studies.rig.processes import json_lines
from weir.errors import Unavailable

_READY_S = 60.0

Route = Callable[[str], tuple[Path, str]]
"""A transfer's file at its source, and where the mover shall put it (`host:port/path`)."""


class PlainCarrier:
    """Has one `plain_sender` process per source host send.

    Args:
        senders: the processes by host, with pipes as standard input and output.
        route: by the transfer's id.

    Raises:
        Unavailable: a sender is not ready in time.
    """

    def __init__(self, senders: Mapping[str, "subprocess.Popen[str]"], route: Route) -> None:
        self._senders = senders
        self._route = route
        self._inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        for host, sender in senders.items():
            assert sender.stdin and sender.stdout, "both are pipes"
            threading.Thread(target=self._hear, args=(host, sender.stdout), daemon=True).start()
        self._await_ready()

    def submit(self, state: RunState, flow: Flow) -> None:
        """Has the file sent now."""
        path, to = self._route(flow.transfer.id)
        order = {"id": flow.transfer.id, "path": str(path), "to": to}
        stdin = self._senders[flow.transfer.source].stdin
        assert stdin, "a pipe"
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        flow.state = "sending"
        state.tell(flow.transfer.id, f"sent, due {flow.deadline_s:.1f} s later")

    def poll(self, state: RunState) -> None:
        """Takes in what the senders have said."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._heard(state, self._inbox.get_nowait())

    def _heard(self, state: RunState, item: dict[str, Any]) -> None:
        if "gone" in item:
            for flow in state.flows.values():
                if flow.transfer.source == item["gone"] and not flow.ended:
                    _fail(state, flow, f"the sender on {item['gone']} ended")
        elif "id" in item:
            flow = state.flows[item["id"]]
            if item["state"] in ("failed", "cancelled"):
                _fail(state, flow, item["error"] or item["state"])
            elif not flow.ended:
                flow.heard(state.now_s, item["bytes"])

    def _hear(self, host: str, stdout: IO[str]) -> None:
        for item in json_lines(stdout):
            self._inbox.put(item)
        self._inbox.put({"gone": host})

    def _await_ready(self) -> None:
        for _ in self._senders:
            try:
                item = self._inbox.get(timeout=_READY_S)
            except queue.Empty:
                raise Unavailable(f"a sender was not ready within {_READY_S:.0f} s") from None
            if "gone" in item:
                raise Unavailable(f"the sender on {item['gone']} ended before it was ready")


def _fail(state: RunState, flow: Flow, why: str) -> None:
    flow.state, flow.error = "failed", why
    state.tell(flow.transfer.id, f"failed: {why}", "bad")
