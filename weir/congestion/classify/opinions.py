"""Two opinions on who is on a path, and which of them counts.

The first learned from usual paths and from the kernel's TCP, and knows these well. The second
learned from a wide range of paths. It is asked where the first knows nothing, and where it doubts
the first: many streams, deep queues and short paths look like what the first knows.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weir.congestion.classify.features import Values

Mask = NDArray[np.bool_]

UNUSUAL = 0.04
"""Windows with a lower p-value are unlike anything seen."""
SURE = (0.2, 0.9)
"""The second opinion counts where BBR is at most as likely as the first, or at least as the
second: BBR that is taken by mistake harms others, and one that is missed oneself."""
DOUBTED = (0.4, 0.75)
"""The first opinion is doubted if the second holds BBR that it says to be less likely than this,
or what it says to be without for BBR with more than that."""


@dataclass(frozen=True, slots=True, eq=False)
class Opinions:
    """What is said of windows.

    Attributes:
        shares: the labels' probabilities by what usual paths taught, a row for each window.
        bbr: the probability that BBR is there, by these.
        usual: the p-values.
        second: the labels' probabilities by what a wide range of paths taught; None where nothing
            did.
        bbr_too: the probability that BBR is there, by these.
        usual_too: the p-values there.
    """

    shares: Values
    bbr: Values
    usual: Values
    second: Values | None = None
    bbr_too: Values = field(default_factory=lambda: np.zeros(0))
    usual_too: Values = field(default_factory=lambda: np.zeros(0))

    def weighed(self, is_short: Mask) -> tuple[Values, Values, Mask]:
        """The labels' probabilities, the p-values, and whether both are of the second opinion.

        Where neither knows anything, the first one's probabilities stay.

        Args:
            is_short: of each window, whether its path is too short for the first opinion.
        """
        usual = np.where(is_short, 0.0, self.usual)
        if self.second is None:
            return self.shares, usual, np.zeros(len(usual), dtype=np.bool_)
        least, most = DOUBTED
        says_bbr = self.bbr > 0.5
        is_doubted = np.where(says_bbr, self.bbr_too < least, self.bbr_too > most)
        usual = np.where(is_doubted, 0.0, usual)
        least, most = SURE
        is_sure = (self.bbr_too <= least) | (self.bbr_too >= most)
        is_second = (usual < UNUSUAL) & is_sure & (self.usual_too >= UNUSUAL)
        shares = np.where(is_second[:, None], self.second, self.shares)
        return shares, np.where(is_second, self.usual_too, usual), is_second
