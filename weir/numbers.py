"""Numbers as people write them, and what some say together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.errors import BadInput

if TYPE_CHECKING:
    from fractions import Fraction

_MOST_DIGITS = 60


def number(name: str, text: str) -> "Fraction":
    """What `text` says of the option `name`, exactly.

    Raises:
        BadInput: it is not a number, or one with more digits than anything here has.
    """
    # Only here: every `weir send` waits for what is imported above.
    from fractions import Fraction

    # Every digit of 1e999999999 would be worked out.
    _, _, exponent = text.lower().partition("e")
    try:
        if len(text) > _MOST_DIGITS or (exponent and abs(int(exponent)) > _MOST_DIGITS):
            raise ValueError
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        shown = text if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}…"
        raise BadInput(f"{name} {shown}: a number is needed, such as 10 or 0.5") from None


def jain(shares: Sequence[float]) -> float:
    """Jain's index of fairness: 1 if all are alike, 1/n if one has everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
