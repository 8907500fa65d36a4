"""Numbers and outcomes in words; the same in the terminal and on the page."""

from weir.report.result import Decision, Delivery, Half, Result


def rate(rate_bps: float) -> str:
    """A rate to three figures: "213 Mbit/s"."""
    for unit, scale in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if rate_bps >= scale:
            return f"{rate_bps / scale:.3g} {unit}" if rate_bps < 999.5 * scale else _next(rate_bps)
    return f"{rate_bps:.0f} bit/s"


def _next(rate_bps: float) -> str:
    # 999.7 Mbit/s rounds to the next unit rather than to "1e+03 Mbit/s".
    return rate(float(f"{rate_bps:.3g}"))


def size(count: float) -> str:
    """An amount of data: "90 MB", "1.02 GB"."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def delay(seconds: float) -> str:
    """A propagation delay: "22 ms"."""
    return f"{seconds * 1e3:.3g} ms"


def percent(fraction: float) -> str:
    """A share of a whole: "93 %"."""
    return f"{fraction * 100:.0f} %"


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
