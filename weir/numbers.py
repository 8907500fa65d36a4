"""Numbers as people write them, and what some say together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.errors import BadInput

if TYPE_CHECKING:
    from fractions import Fraction


def number(name: str, text: str) -> "Fraction":
    """What `text` says of the option `name`, exactly.

    Raises:
        BadInput: it is not a number.
    """
    # Only here: every `weir send` waits for what is imported above.
    from fractions import Fraction

    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise BadInput(f"{name} {text}: a number is needed, such as 10 or 0.5") from None


def jain(shares: Sequence[float]) -> float:
    """Jain's index of fairness: 1 if all are alike, 1/n if one has everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
