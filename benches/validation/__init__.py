"""The same TCP flows in three worlds, side by side."""
