"""What a calendar is run with."""

import json
from dataclasses import dataclass, field

from weir import Time
from weir.calendar.network import Network

# What a calendar begins with that is told no policy.
DEFAULT_POLICY = "local-ljf"
# The policies that take a start and a weight.
PLAN_AHEAD = ("weir", "weir-all")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a calendar is run with. Changing any but the last three re-plans what is active.

    Attributes:
        offer: how long the deadline that a refusal offers can be asked for.
        hold: how long of that the room for it is kept from others; 0 s is not at all.
        spare: the class in which transfers send beside their rates, `le` or `cs1`; None: they
            do not.
    """

    network: Network
    policy: str
    epoch: Time
    margin: Time
    offer: Time = field(default_factory=lambda: Time("60 s"))
    hold: Time = field(default_factory=lambda: Time("60 s"))
    spare: str | None = None

    @property
    def plans_ahead(self) -> bool:
        """Whether the policy reserves what starts later, and knows what is worth more."""
        return self.policy in PLAN_AHEAD

    def configuration(self) -> str:
        """Text that is equal for equal settings."""
        return json.dumps([self.network.engine_json(), self.policy, self.epoch.ns, self.margin.ns])


def policy_of(configuration: str) -> str:
    """The policy in what `Settings.configuration` gave."""
    return str(json.loads(configuration)[1])
