"""What is known of a half while it runs: the one thing that the views show and samples come from.

Every time is in seconds since the half began; nothing here reads a clock.
"""

from dataclasses import dataclass, field

from studies.demonstration.delivery_plan import Plan, Transfer
from weir.transfer.forecast import SmoothedRate

HALVES = {"weir": "with Weir's calendar", "plain": "plain TCP, no calendar"}
_RATE_WINDOW_S = 1.0
_FORETOLD_BY_S = 3.0  # time constant of the rate that an end is foretold by
_SILENT_S = 2.0  # agents report once a second
_STANDS_MIN_S = 3


@dataclass
class Flow:
    """One transfer as last heard of.

    Attributes:
        transfer: what was planned.
        deadline_s: from submission; what was asked for until the calendar took another.
        state: "waiting", "refused", "sending", "delivered" or "failed".
        submitted_s: when it was asked for, None before.
        finish_s: when it stood under its final name, from submission; None before.
        allotted_bps: the calendar's present rate, None without one.
        history: (time, bytes) as heard.
        error: why it failed.
    """

    transfer: Transfer
    deadline_s: float
    state: str = "waiting"
    submitted_s: float | None = None
    finish_s: float | None = None
    allotted_bps: int | None = None
    history: list[tuple[float, int]] = field(default_factory=list)
    error: str = ""

    @property
    def bytes_done(self) -> int:
        """What has arrived so far."""
        return self.history[-1][1] if self.history else 0

    @property
    def fraction(self) -> float:
        """How much of the file has arrived."""
        return min(self.bytes_done / self.transfer.size.count, 1.0)

    @property
    def ended(self) -> bool:
        """Delivered or failed: nothing more will come."""
        return self.state in ("delivered", "failed")

    def heard(self, now_s: float, bytes_done: int) -> None:
        """Notes progress; a count that went back is a restart's and is not noted."""
        if bytes_done > self.bytes_done or not self.history:
            # What is heard late may be told of an earlier moment: time does not go back either.
            at_s = max(now_s, self.history[-1][0]) if self.history else now_s
            self.history.append((at_s, min(bytes_done, self.transfer.size.count)))

    def rate_bps(self, now_s: float) -> float:
        """The goodput over about the last second."""
        if self.state != "sending" or not self.history:
            return 0.0
        end_s, end = self.history[-1]
        before = [item for item in self.history if item[0] <= end_s - _RATE_WINDOW_S]
        start_s, start = before[-1] if before else (self.submitted_s or 0.0, 0)
        return (end - start) * 8 / max(end_s - start_s, now_s - end_s, 0.1)

    def slack_s(self, now_s: float) -> float | None:
        """The time to spare at the deadline: known once delivered, expected while sending.

        That it will be late is no more than a guess while it begins, or after a second of bad
        luck: it is said when it has been expected for a tenth of the time that there is (3 s at
        least), the first of these tenths not counted, or when the deadline has passed.
        """
        if self.finish_s is not None:
            return self.deadline_s - self.finish_s
        slack = self._expected_slack_s(now_s)
        if slack is None or slack >= 0 or self._is_due(now_s):
            return slack
        stands_s = max(_STANDS_MIN_S, round(self.deadline_s / 10))
        begun_s = (self.submitted_s or 0.0) + stands_s
        before = [self._expected_slack_s(now_s - back_s) for back_s in range(stands_s + 1)]
        stood = now_s - stands_s >= begun_s and all(one is not None and one < 0 for one in before)
        return slack if stood else None

    def _is_due(self, now_s: float) -> bool:
        return self.submitted_s is not None and now_s > self.submitted_s + self.deadline_s

    def _expected_slack_s(self, at_s: float) -> float | None:
        """The slack that was to be expected at a moment, by what was heard until then."""
        if self.submitted_s is None or self.state != "sending":
            return None
        heard = [item for item in self.history if item[0] <= at_s]
        end_s, count = heard[-1] if heard else (self.submitted_s, 0)
        rate = SmoothedRate(_FORETOLD_BY_S)
        rate.saw(self.submitted_s, 0)
        for when_s, so_far in heard:
            rate.saw(when_s, so_far)
        if at_s - end_s > _SILENT_S:  # within that there is merely no news yet
            rate.saw(at_s, count)
        if not rate.bps:
            return None
        left_s = (self.transfer.size.count - count) * 8 / rate.bps
        return self.submitted_s + self.deadline_s - max(at_s, end_s + left_s)


@dataclass(frozen=True)
class Event:
    """Something worth a line: who, and what happened, in words. `tone` is good, bad or plain."""

    at_s: float
    id: str
    text: str
    tone: str = "plain"


@dataclass
class RunState:
    """One half as it stands.

    Attributes:
        half: "weir" or "plain".
        plan: what is being carried out.
        flows: by id, in order of submission.
        events: in order of time.
        link_bps: what left the bottleneck lately, None before the first sample.
        now_s: when the state was last brought up to date.
    """

    half: str
    plan: Plan
    flows: dict[str, Flow]
    events: list[Event] = field(default_factory=list)
    link_bps: float | None = None
    now_s: float = 0.0

    @classmethod
    def of(cls, half: str, plan: Plan) -> "RunState":
        """A state in which nothing has happened yet."""
        flows = {item.id: Flow(item, item.deadline.ns / 1e9) for item in plan.transfers}
        return cls(half, plan, flows)

    @property
    def title(self) -> str:
        """Which half this is, for people."""
        return HALVES[self.half]

    @property
    def capacity_bps(self) -> int:
        """The bottleneck's rate."""
        rate = self.plan.bottleneck.forward.rate
        assert rate is not None, "a plan's bottleneck has a rate"
        return rate.bit_per_s

    @property
    def ended(self) -> bool:
        """Whether every transfer has ended."""
        return all(flow.ended for flow in self.flows.values())

    def tell(self, id: str, text: str, tone: str = "plain") -> None:
        """Adds an event at the present time."""
        self.events.append(Event(self.now_s, id, text, tone))
