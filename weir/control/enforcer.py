"""The switches as an `Enforcer`: what pairs are allotted is put into them by the controller."""

from collections.abc import Callable, Mapping

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.control.core import Core


class SwitchEnforcer:
    """An `Enforcer` whose rules stand in switches.

    Switches are told when they are connected; until then, and when they refuse something, they go
    on by the rules that they have, which the core says.
    """

    def __init__(self, core: Core, pump: Callable[[], None]) -> None:
        """Lets `pump` send at once what the core wants."""
        self._core = core
        self._pump = pump
        self._allotted: dict[Pair, Allotment] = {}

    def install(self) -> None:
        """Begins with no pair in force; what is in the switches stays until the first `apply`."""
        self._allotted = {}

    def apply(self, wanted: Mapping[Pair, Allotment]) -> None:
        """Has the controller put these allotments into the switches, and no others."""
        self._allotted = dict(wanted)
        self._core.allot(self._allotted)
        self._pump()

    def in_force(self) -> Mapping[Pair, Allotment]:
        """What the last `apply` was told."""
        return self._allotted

    def remove(self) -> None:
        """Holds nobody any longer; everybody's packets go by next hops."""
        self.apply({})
