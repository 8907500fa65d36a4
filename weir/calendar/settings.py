"""What a calendar is run with."""

import json
from dataclasses import dataclass, field

from weir import Time
from weir.calendar.lanes import LANES_MAX
from weir.calendar.network import Network
from weir.errors import BadInput

# What a calendar begins with that is told no policy.
DEFAULT_POLICY = "weir"
# The policies that take a start and a weight.
PLAN_AHEAD = ("weir", "weir-all")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a calendar is run with. Changing any but `offer`, `hold` and `spare` re-plans all.

    Attributes:
        offer: how long the deadline that a refusal offers can be asked for.
        hold: how long of that the room for it is kept from others; 0 s is not at all.
        spare: the class in which transfers send beside their rates, `le` or `cs1`; None: they
            do not.
        paths: over how many paths a transfer may be sent, with a policy that plans ahead.
    """

    network: Network
    policy: str
    epoch: Time
    margin: Time
    offer: Time = field(default_factory=lambda: Time("60 s"))
    hold: Time = field(default_factory=lambda: Time("60 s"))
    spare: str | None = None
    paths: int = 1

    @property
    def plans_ahead(self) -> bool:
        """Whether the policy reserves what starts later, and knows what is worth more."""
        return self.policy in PLAN_AHEAD

    def check_paths(self) -> None:
        """Raises `BadInput` where the policy cannot send over so many paths."""
        if not 1 <= self.paths <= LANES_MAX:
            raise BadInput(f"--paths {self.paths}: it is from 1 to {LANES_MAX}")
        if self.paths > 1 and not self.plans_ahead:
            raise BadInput(
                f'--paths {self.paths}: the policy "{self.policy}" sends each transfer over one '
                f"path; those that send over several are {' and '.join(PLAN_AHEAD)}"
            )

    def configuration(self) -> str:
        """Text that is equal for equal settings."""
        several = [self.paths] if self.paths > 1 else []
        parts = [self.network.engine_json(), self.policy, self.epoch.ns, self.margin.ns, *several]
        return json.dumps(parts)


def policy_of(configuration: str) -> str:
    """The policy in what `Settings.configuration` gave; empty where that is damaged."""
    try:
        return str(json.loads(configuration)[1])
    except (ValueError, TypeError, LookupError):
        return ""
