"""What only policies that plan ahead can promise: a later start and a weight."""

from weir.calendar.problem import Problem
from weir.calendar.records import Submission
from weir.calendar.settings import PLAN_AHEAD, Settings


def check(asked: Submission, settings: Settings) -> None:
    """Raises a `Problem` (409, "unsupported") naming what this calendar's policy cannot promise."""
    if settings.plans_ahead:
        return
    for field, is_asked, what in (
        ("start", asked.start_ns is not None, "starts everything at once"),
        ("weight", asked.weight != 1, "knows no weights"),
    ):
        if is_asked:
            raise Problem(
                409,
                "unsupported",
                "This policy cannot promise that",
                f'the policy of this calendar, "{settings.policy}", {what}',
                field=field,
                hint=f"its operator can serve with --policy {PLAN_AHEAD[0]}",
            )
