"""Numbers and outcomes in words; the same in the terminal and on the page."""

from studies.demonstration.report.result import Decision, Delivery, Half, Result
from weir.format import rate


def verdict(delivery: Delivery) -> str:
    """How a file stood at its deadline: "1.2 s to spare", "4.1 s late", "never arrived"."""
    if delivery.slack_s is None:
        return "never arrived"
    if delivery.on_time:
        return f"{delivery.slack_s:.1f} s to spare"
    return f"{max(-delivery.slack_s, 0.1):.1f} s late"


def tally(half: Half) -> str:
    """How many were on time: "7 of 7"."""
    return f"{half.on_time} of {len(half.deliveries)}"


def headline(result: Result) -> str:
    """The outcome in one sentence."""
    return (
        f"{tally(result.weir)} files on time with Weir, {tally(result.plain)} with plain TCP: "
        "same bytes, same link."
    )


def extreme(half: Half) -> str:
    """The transfer that came closest to its deadline, or missed it by most."""
    arrived = [d for d in half.deliveries if d.slack_s is not None]
    if len(arrived) < len(half.deliveries):
        return "never arrived"
    return verdict(min(arrived, key=lambda d: d.slack_s or 0.0))


def decision(event: Decision) -> str:
    """What the calendar answered, and why."""
    if event.kind == "accepted":
        by = f", due {event.deadline_s:.1f} s later" if event.deadline_s is not None else ""
        return f"admitted at {rate(event.rate_bps or 0)}{by}"
    if event.kind == "refused":
        until = (
            f"; would fit {event.earliest_deadline_s:.1f} s after submission"
            if event.earliest_deadline_s is not None
            else ""
        )
        due = f" for {event.deadline_s:.1f} s" if event.deadline_s is not None else ""
        return f"refused{due}: {event.detail}{until}"
    if event.kind == "rate":
        return f"now {rate(event.rate_bps or 0)}"
    return event.detail or event.kind
