"""Shows a half while it runs: a picture in a terminal, lines elsewhere, JSON lines for machines."""

import json
import sys
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from studies.demonstration.run_state import Event, Flow, RunState
from weir.format import delay, rate

_TONES = {"good": "green", "bad": "red", "plain": ""}
_EVENTS = 6
_LINE_EVERY_S = 5.0
# The terminal prints ^C behind the picture's last line. Were that line full, it would break, and
# what takes the picture away would start a line too low and leave its top border.
_ECHO_COLUMNS = 4


class View(Protocol):
    """Something that shows the run; entered for as long as there is something to show."""

    def say(self, text: str) -> None:
        """One line about the run as a whole."""

    def show(self, state: RunState) -> None:
        """The present state of a half; called several times a second."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def choose(as_json: bool, stream: TextIO = sys.stdout) -> View:
    """The view that suits where the output goes."""
    if as_json:
        return JsonLines(stream)
    console = Console(file=stream)
    if console.is_terminal and not console.is_dumb_terminal and console.height >= 16:
        return Picture(console)
    return Lines(stream)


class _Shown:
    """Which events of which half have been shown."""

    def __init__(self) -> None:
        self._board: RunState | None = None
        self._count = 0

    def fresh(self, state: RunState) -> list[Event]:
        """The events not asked for before."""
        if state is not self._board:
            self._board, self._count = state, 0
        events = state.events[self._count :]
        self._count = len(state.events)
        return events


class JsonLines:
    """One JSON object per line: "say", "event" and, every second, "state"."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = _Shown()
        self._next: dict[str, float] = {}

    def say(self, text: str) -> None:
        """One line about the run as a whole."""
        self._put({"kind": "say", "text": text})

    def show(self, state: RunState) -> None:
        """Events as they come, and the state of every transfer once a second."""
        for event in self._shown.fresh(state):
            self._put(
                {
                    "kind": "event",
                    "half": state.half,
                    "at_s": round(event.at_s, 3),
                    "id": event.id,
                    "text": event.text,
                }
            )
        if state.now_s >= self._next.get(state.half, 0.0):
            self._next[state.half] = state.now_s + 1.0
            self._put(
                {
                    "kind": "state",
                    "half": state.half,
                    "at_s": round(state.now_s, 3),
                    "link_bps": state.link_bps,
                    "transfers": [_flow_json(flow, state.now_s) for flow in state.flows.values()],
                }
            )

    def _put(self, item: dict[str, object]) -> None:
        print(json.dumps(item), file=self._stream, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def _flow_json(flow: Flow, now_s: float) -> dict[str, object]:
    slack = flow.slack_s(now_s)
    return {
        "id": flow.transfer.id,
        "state": flow.state,
        "bytes_done": flow.bytes_done,
        "rate_bps": round(flow.rate_bps(now_s)),
        "allotted_bps": flow.allotted_bps,
        "slack_s": None if slack is None else round(slack, 3),
    }


class Lines:
    """Plain lines for a pipe or a log file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = _Shown()
        self._next: dict[str, float] = {}

    def say(self, text: str) -> None:
        """One line about the run as a whole."""
        print(text, file=self._stream, flush=True)

    def show(self, state: RunState) -> None:
        """Events as they come, and a summary every few seconds."""
        for event in self._shown.fresh(state):
            self.say(f"{event.at_s:6.1f} s  {event.id:<10} {event.text}")
        if state.now_s >= self._next.setdefault(state.half, _LINE_EVERY_S):
            self._next[state.half] = state.now_s + _LINE_EVERY_S
            sending = [flow for flow in state.flows.values() if flow.state == "sending"]
            rates = ", ".join(
                f"{flow.transfer.id} {rate(flow.rate_bps(state.now_s))}" for flow in sending
            )
            link = f"link {rate(state.link_bps)}" if state.link_bps is not None else ""
            self.say(f"{state.now_s:6.1f} s  {link}{': ' if link and rates else ''}{rates}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Picture:
    """The live picture in a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True)
        self._shown = _Shown()

    def say(self, text: str) -> None:
        """One line above the picture."""
        self._live.console.print(text, highlight=False)

    def show(self, state: RunState) -> None:
        """Redraws the picture."""
        self._live.update(picture(state, self._console.width))

    def clear(self) -> None:
        """Takes the picture away until the next `show`."""
        self._live.update(Text(""))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.update(Text(""))
        self._live.stop()


def picture(state: RunState, width: int) -> RenderableType:
    """The whole picture of a half at one moment, in a terminal of `width` columns."""
    width = min(width - _ECHO_COLUMNS, 110)
    return Panel(
        Group(*_network(state, width), Rule(style="dim"), _flows(state, width), *_events(state)),
        title=f"[bold]Weir[/bold] · {state.plan.name} · {state.title}",
        subtitle=f"{state.now_s:.1f} s",
        border_style="cyan" if state.half == "weir" else "yellow",
        width=width,
        padding=(0, 1),
    )


def _network(state: RunState, width: int) -> list[RenderableType]:
    near, far = state.plan.bottleneck.ends
    senders = dict.fromkeys(item.source for item in state.plan.transfers)
    receivers = dict.fromkeys(item.destination for item in state.plan.transfers)
    sites = Text("  ")
    for name in senders:
        busy = any(
            flow.state == "sending" for flow in state.flows.values() if flow.transfer.source == name
        )
        sites.append("● " if busy else "○ ", "green" if busy else "dim")
        sites.append(f"{name} ", "bold")
        sites.append(f"{_delay(state, name)}  " if width >= 90 else "", "dim")
    sites.append(f"→ {near} ═ {far} → ", "dim")
    sites.append(" ".join(receivers), "bold")
    return [sites, _link_bar(state, width - 46)]


def _delay(state: RunState, host: str) -> str:
    links = [link for link in state.plan.lab.links if host in link.ends]
    return delay(links[0].forward.delay.ns / 1e9) if links else ""


def _link_bar(state: RunState, cells: int) -> Text:
    cells = max(cells, 10)
    bar = Text("  ")
    used = state.link_bps or 0.0
    filled = min(round(cells * used / state.capacity_bps), cells)
    owned = round(cells * state.plan.calendar_share)
    for cell in range(cells):
        mark = "│" if state.half == "weir" and cell == owned else "█" if cell < filled else "░"
        bar.append(mark, "cyan" if cell < filled else "dim")
    bar.append(f" {rate(used)} of {rate(state.capacity_bps)} ")
    bar.append(f"{state.plan.bottleneck.name}", "dim")
    return bar


def _flows(state: RunState, width: int) -> Table:
    table = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    table.add_column("  file", no_wrap=True)
    table.add_column("arrived", no_wrap=True)
    table.add_column("Mbit/s", justify="right", no_wrap=True)
    if state.half == "weir":
        table.add_column("allotted", justify="right", no_wrap=True)
    table.add_column("due in", justify="right", no_wrap=True)
    narrow = width < 90
    table.add_column("late ◂ ▸ to spare" if narrow else "late ◂ slack ▸ to spare", no_wrap=True)
    for flow in state.flows.values():
        table.add_row(
            *_flow_row(state, flow, 8 if narrow else 20),
            _slack_bar(flow, state.now_s, 4 if narrow else 7),
        )
    return table


def _flow_row(state: RunState, flow: Flow, cells: int) -> list[RenderableType]:
    now_s = state.now_s
    dim = "dim" if flow.state == "waiting" else ""
    rate = flow.rate_bps(now_s)
    row: list[RenderableType] = [
        Text(f"  {flow.transfer.id}", dim or "bold"),
        _progress_bar(flow, cells),
        Text(f"{rate / 1e6:.0f}" if rate else ""),
    ]
    if state.half == "weir":
        shown = flow.allotted_bps is not None and not flow.ended
        row.append(Text(f"{(flow.allotted_bps or 0) / 1e6:.0f}" if shown else "", "cyan"))
    due = "" if flow.submitted_s is None else f"{flow.submitted_s + flow.deadline_s - now_s:.1f} s"
    row.append(Text("" if flow.ended else due, dim))
    return row


def _progress_bar(flow: Flow, cells: int) -> Text:
    filled = round(cells * flow.fraction)
    bar = Text("━" * filled, "green" if flow.state == "delivered" else "cyan")
    bar.append("━" * (cells - filled), "bright_black")
    bar.append(f" {flow.fraction:4.0%}" if flow.submitted_s is not None else "     ", "dim")
    return bar


def _slack_bar(flow: Flow, now_s: float, half: int) -> Text:
    """A bar from the middle: to the right for time to spare, to the left for lateness."""
    if flow.state in ("waiting", "refused", "failed"):
        return Text(f"{'':{half}} {flow.state}", "red" if flow.state != "waiting" else "dim")
    slack = flow.slack_s(now_s)
    if slack is None:
        return Text("")
    length = min(max(round(abs(slack) / flow.deadline_s * half * 1.5), 1), half)
    late = "▆" * length if slack < 0 else ""
    spare = "▆" * length if slack >= 0 else ""
    sure = "" if flow.state == "delivered" else "dim "
    mark = {"delivered": "✓ " if slack >= 0 else "✕ "}.get(flow.state, "~ ")
    bar = Text(f"{late:>{half}}", f"{sure}red")
    bar.append("│", "bright_black")
    bar.append(f"{spare:<{half}} ", f"{sure}green")
    bar.append(f"{mark}{slack:+.1f} s", "green" if slack >= 0 else "red")
    return bar


def _events(state: RunState) -> list[RenderableType]:
    lines: list[RenderableType] = [Rule(style="dim")]
    shown = state.events[-_EVENTS:]
    for event in shown:
        line = Text(f"{event.at_s:6.1f} s  ", "dim", no_wrap=True, overflow="ellipsis")
        line.append(f"{event.id:<10} ", "bold")
        line.append(event.text, _TONES[event.tone])
        lines.append(line)
    lines += [Text("")] * (_EVENTS - len(shown))
    return lines
