"""Rates, sizes and shares as people read them."""


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
