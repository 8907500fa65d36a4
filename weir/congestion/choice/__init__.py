"""Choosing: which congestion control suits whoever is on the path (001-spec 6.3).

`decide` is pure; `interaction` holds what each control gets, and leaves, beside each background;
`measure` makes that table by the packet simulator.
"""

from weir.congestion.choice.decide import Choice, Wanted, choose, one_level_tree
from weir.congestion.choice.interaction import Interaction, Meeting
from weir.congestion.options import FAIRNESS

__all__ = ["FAIRNESS", "Choice", "Interaction", "Meeting", "Wanted", "choose", "one_level_tree"]
