"""What is known of a half, and what the terminal shows of it."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from studies.demonstration import delivery_plan, view
from studies.demonstration.run_state import RunState

SHIPPED = Path(__file__).parents[3] / "scenarios" / "deadlines.toml"


@pytest.fixture
def state():
    return RunState.of("weir", delivery_plan.load(SHIPPED))


def sending(state, id, submitted_s=0.0):
    flow = state.flows[id]
    flow.state, flow.submitted_s = "sending", submitted_s
    return flow


def test_the_rate_is_that_of_the_last_second(state):
    flow = sending(state, "genomes")
    for tenth in range(101):
        flow.heard(tenth / 10, tenth * 500_000)
    assert flow.rate_bps(10.0) == pytest.approx(40e6)
    for tenth in range(101, 131):
        flow.heard(tenth / 10, 50_000_000 + (tenth - 100) * 1_000_000)
    assert flow.rate_bps(13.0) == pytest.approx(80e6)


def test_a_stalled_flow_slows_down_and_a_finished_one_has_no_rate(state):
    flow = sending(state, "genomes")
    flow.heard(1.0, 10_000_000)
    assert flow.rate_bps(1.0) == pytest.approx(80e6)
    assert flow.rate_bps(5.0) == pytest.approx(20e6)
    flow.state = "delivered"
    assert flow.rate_bps(5.0) == 0


def test_expected_slack_is_deadline_less_what_is_left_to_move(state):
    flow = sending(state, "outbreak", submitted_s=3.0)
    flow.heard(5.0, flow.transfer.size.count // 2)
    # Half in 2 s, so 2 s more: arrival at 7 s for a deadline at 3 + 6 s.
    assert flow.slack_s(5.0) == pytest.approx(2.0)
    flow.state, flow.finish_s = "delivered", 8.0
    assert flow.slack_s(99.0) == pytest.approx(-2.0)


def reports(flow, pieces):
    """Moves it as (seconds, bit/s) say, reported once a second; each slack that is shown."""
    at_s, count, shown = flow.submitted_s, 0.0, []
    for seconds, bps in pieces:
        for _ in range(seconds):
            for tenth in range(10):
                shown.append((at_s + tenth / 10, flow.slack_s(at_s + tenth / 10)))
            at_s, count = at_s + 1.0, count + bps / 8
            flow.heard(at_s, int(count))
    return shown


def test_a_file_that_will_be_in_time_is_never_shown_as_late(state):
    """It begins slowly, pauses, and is reported in pieces: 100 MB in 25 s of 60."""
    flow = sending(state, "genomes", submitted_s=2.0)
    shown = reports(flow, [(1, 0), (1, 1e6), (2, 8e6), (6, 40e6), (2, 0), (10, 50e6)])
    assert not [one for one in shown if one[1] is not None and one[1] < 0]
    assert shown[-1][1] > 20


def test_a_file_that_will_be_late_is_shown_so_within_seconds(state):
    flow = sending(state, "genomes", submitted_s=2.0)
    shown = reports(flow, [(20, 8e6)])  # 100 MB would take 100 s of 60
    late = [at_s for at_s, slack in shown if slack is not None and slack < 0]
    assert 2 + 6 + 6 <= late[0] < 2 + 6 + 6 + 2
    assert late == [at_s for at_s, _ in shown if at_s >= late[0]]
    assert shown[-1][1] == pytest.approx(-40, abs=5)


def test_a_deadline_that_passed_is_shown_at_once(state):
    flow = sending(state, "outbreak", submitted_s=0.0)
    shown = reports(flow, [(5, 60e6), (4, 5e6)])  # 42 MB in 6 s would be in time
    assert all((slack is not None and slack < 0) == (at_s > 6.05) for at_s, slack in shown)


def test_progress_that_goes_back_is_not_noted(state):
    flow = sending(state, "genomes")
    flow.heard(1.0, 1000)
    flow.heard(2.0, 500)
    assert flow.bytes_done == 1000
    flow.heard(3.0, 10**12)
    assert flow.bytes_done == flow.transfer.size.count


def rendered(state, width):
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(view.picture(state, width))
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("half", ["weir", "plain"])
def test_the_picture_fits_and_names_everything(state, half, width):
    state.half = half
    flow = sending(state, "frames", submitted_s=6.0)
    flow.allotted_bps = 176_000_000
    state.now_s = 8.0
    moved = flow.transfer.size.count // 2
    flow.heard(8.0, moved)
    late = sending(state, "alert", submitted_s=0.0)
    late.state, late.finish_s = "delivered", late.deadline_s + 4.0
    state.link_bps = 372e6
    state.tell("frames", "admitted at 176 Mbit/s", "good")
    text = rendered(state, width)
    # The terminal prints ^C behind the last line, perhaps twice, and no line may break.
    assert max(len(line) for line in text.splitlines()) <= width - len("^C^C")
    for word in [*state.flows, "hinxton", "bologna", "372 Mbit/s", "admitted at 176", "50%"]:
        assert word in text
    assert f"{moved * 8 / 2 / 1e6:.0f}" in text  # Mbit/s, measured over two seconds
    assert ("allotted" in text) == (half == "weir")
    assert "✕ -4.0 s" in text


def test_lines_show_every_event_once_and_then_the_next_half(state):
    stream = io.StringIO()
    with view.Lines(stream) as lines:
        state.tell("genomes", "admitted")
        lines.show(state)
        lines.show(state)
        state.now_s = 6.0
        state.tell("frames", "refused")
        lines.show(state)
        other = RunState.of("plain", state.plan)
        other.tell("genomes", "started")
        lines.show(other)
    text = stream.getvalue()
    assert [text.count(word) for word in ("admitted", "refused", "started")] == [1, 1, 1]


def test_json_lines_are_json(state):
    stream = io.StringIO()
    with view.JsonLines(stream) as lines:
        lines.say("up")
        flow = sending(state, "genomes")
        flow.heard(0.5, 5_000_000)
        state.now_s = 1.0
        state.tell("genomes", "admitted")
        lines.show(state)
    kinds = [json.loads(line)["kind"] for line in stream.getvalue().splitlines()]
    assert kinds == ["say", "event", "state"]
    told = json.loads(stream.getvalue().splitlines()[-1])
    assert told["transfers"][0]["bytes_done"] == 5_000_000


def test_the_view_suits_where_the_output_goes():
    assert isinstance(view.choose(True, io.StringIO()), view.JsonLines)
    assert isinstance(view.choose(False, io.StringIO()), view.Lines)
