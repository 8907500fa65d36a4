"""How the calendar says things to people."""


def rate_text(rate_bps: float) -> str:
    """A rate in Mbit/s to one decimal; what is less in kbit/s or bit/s, so never as nothing."""
    if rate_bps >= 100_000:
        return f"{rate_bps / 1e6:.1f} Mbit/s"
    return f"{rate_bps / 1e3:.1f} kbit/s" if rate_bps >= 1_000 else f"{rate_bps:.0f} bit/s"
