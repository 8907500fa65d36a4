"""Collecting: what a prober sees beside known traffic of the kernel's own TCP, in the lab.

`collect` goes through settings and writes a file of `weir.ops.recordings` as it comes along; one
setting is one lab (`recorder`), whose traffic (`background`) is watched meanwhile (`watch`).
"""

from weir.ops.collecting.collection import Done, collect
from weir.ops.collecting.recorder import Setting, capture

__all__ = ["Done", "Setting", "capture", "collect"]
