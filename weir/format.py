"""Rates, sizes and shares as people read them."""


def rate(rate_bps: float) -> str:
    """A rate to three figures: "213 Mbit/s"."""
    return _scaled(rate_bps, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"))


def mbit_s(rate_bps: float) -> str:
    """A rate in Mbit/s to one decimal; what is less in kbit/s or bit/s, so never as nothing."""
    if rate_bps >= 100_000:
        return f"{rate_bps / 1e6:.1f} Mbit/s"
    return f"{rate_bps / 1e3:.1f} kbit/s" if rate_bps >= 1_000 else f"{rate_bps:.0f} bit/s"


def size(count: float) -> str:
    """An amount of data to three figures: "90 MB", "1.02 GB"."""
    return _scaled(count, ("B", "kB", "MB", "GB", "TB", "PB", "EB"))


def _scaled(value: float, units: tuple[str, ...]) -> str:
    if round(value) < 1000:
        return f"{value:.0f} {units[0]}"
    for unit in units[1:-1]:
        value /= 1000
        # 999.7 Mbit/s rounds to the next unit rather than to "1e+03 Mbit/s".
        if value < 999.5:
            return f"{value:.3g} {unit}"
    return f"{value / 1000:.3g} {units[-1]}"


def counted(count: int, what: str) -> str:
    """A number of things of one kind: "1 file", "3 files"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def delay(seconds: float) -> str:
    """A propagation delay: "22 ms"."""
    return f"{seconds * 1e3:.3g} ms"


def percent(fraction: float) -> str:
    """A share of a whole: "93 %"."""
    return f"{fraction * 100:.0f} %"
