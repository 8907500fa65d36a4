"""What is asked of a probing; `crates/probe` carries it out."""

from dataclasses import dataclass
from fractions import Fraction

from weir.errors import BadInput

RATE_MAX_HZ = 100
REQUESTS_MAX = 100
SPACING_NS = 1_000_000  # 001-spec section 5.3: g = 1 ms
_NS = 1_000_000_000
_RATE_MIN_HZ = Fraction(1, 60)
_SECONDS_MAX = 30 * 24 * 3600
_TIMEOUT_MAX_S = 10


@dataclass(frozen=True)
class Plan:
    """How a path is sampled; the defaults are the thesis's (001-spec section 5.3).

    Attributes:
        rate_hz: samples a second, exact; 1/60 to 100.
        requests: echo requests of a sample, 1 ms apart.
        seconds: how long, None until it is ended.
        timeout_s: a reply that takes longer counts as lost.
    """

    rate_hz: Fraction = Fraction(1)
    requests: int = 10
    seconds: Fraction | None = Fraction(20)
    timeout_s: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not _RATE_MIN_HZ <= self.rate_hz <= RATE_MAX_HZ:
            raise BadInput(
                f"a rate of {float(self.rate_hz):g} Hz: 1/60 to {RATE_MAX_HZ} samples a second are "
                "possible"
            )
        if not 1 <= self.requests <= REQUESTS_MAX:
            raise BadInput(f"{self.requests} requests a sample: 1 to {REQUESTS_MAX} are possible")
        if (self.requests - 1) * SPACING_NS >= self.period_ns:
            most = min(REQUESTS_MAX, -(-self.period_ns // SPACING_NS))
            raise BadInput(
                f"{self.requests} requests 1 ms apart do not fit into a sample of "
                f"{self.period_ns / 1e6:g} ms; at this rate {most} do"
            )
        if self.seconds is not None and not 0 < self.seconds <= _SECONDS_MAX:
            raise BadInput(
                f"{float(self.seconds):g} seconds: above 0 and up to {_SECONDS_MAX} (30 days)"
            )
        if not 0 < self.timeout_s <= _TIMEOUT_MAX_S:
            raise BadInput(
                f"a timeout of {float(self.timeout_s):g} s: above 0 and up to {_TIMEOUT_MAX_S} s"
            )

    @property
    def period_ns(self) -> int:
        """Between samples, rounded down."""
        return int(_NS / self.rate_hz)

    @property
    def timeout_ns(self) -> int:
        """After which a reply is lost."""
        return int(self.timeout_s * _NS)

    @property
    def samples(self) -> int | None:
        """How many, at least one; None without end."""
        return None if self.seconds is None else max(1, int(self.seconds * self.rate_hz))
