"""What a calendar is run with."""

import json
from dataclasses import dataclass, field

from weir import Time
from weir.calendar.network import Network


@dataclass(frozen=True, slots=True)
class Settings:
    """What a calendar is run with. Changing any but `offer` and `hold` re-plans what is active.

    Attributes:
        offer: how long the deadline that a refusal offers can be asked for.
        hold: how long of that the room for it is kept from others; 0 s is not at all.
    """

    network: Network
    policy: str
    epoch: Time
    margin: Time
    offer: Time = field(default_factory=lambda: Time("60 s"))
    hold: Time = field(default_factory=lambda: Time("60 s"))

    def configuration(self) -> str:
        """Text that is equal for equal settings."""
        return json.dumps([self.network.engine_json(), self.policy, self.epoch.ns, self.margin.ns])
