"""What a calendar is run with."""

import json
from dataclasses import dataclass

from weir import Time
from weir.calendar.network import Network


@dataclass(frozen=True, slots=True)
class Settings:
    """What a calendar is run with. Changing any of it re-plans the active transfers."""

    network: Network
    policy: str
    epoch: Time
    margin: Time

    def configuration(self) -> str:
        """Text that is equal for equal settings."""
        return json.dumps([self.network.engine_json(), self.policy, self.epoch.ns, self.margin.ns])
