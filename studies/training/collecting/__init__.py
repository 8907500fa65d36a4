"""Collecting: what a prober sees beside known traffic of the kernel's own TCP, in the lab.

`collect` goes through settings and writes a file of `weir.congestion.recordings` as it comes along;
one setting is one lab (`recorder`), whose traffic (`background`) is watched meanwhile (`watch`).
"""

from studies.training.collecting.collection import Done, collect
from studies.training.collecting.recorder import Setting, capture

__all__ = ["Done", "Setting", "capture", "collect"]
