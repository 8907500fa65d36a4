"""Collecting: what a prober sees beside known traffic of the kernel's own TCP, in the lab.

`collect` goes through settings and writes a file of `weir.ops.recordings` as it comes along; one
setting is one lab (`capture`), whose traffic (`background`) is watched meanwhile (`watch`).
"""

from weir.ops.collecting.capture import Setting, capture
from weir.ops.collecting.collect import Done, collect

__all__ = ["Done", "Setting", "capture", "collect"]
