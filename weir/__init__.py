"""Weir: bulk data across shared networks, on time, fairly, and proven.

The quantities that every interface speaks in are here; everything else is in the package that
the layout in `docs/architecture.md` names.
"""

from weir._core import Bytes, Rate, Time, __version__

__all__ = ["Bytes", "Rate", "Time", "__version__"]
