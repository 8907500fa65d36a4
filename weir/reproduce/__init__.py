"""Published tables and figures, run again and shown beside what was printed.

A row names one published result and the function that obtains ours. Nothing is compared by hand:
`verdict` is computed from our value and the stated tolerance.
"""

from weir.reproduce.row import Json, Outcome, Point, Row, Verdict
from weir.reproduce.rows import ROWS, find

__all__ = ["ROWS", "Json", "Outcome", "Point", "Row", "Verdict", "find"]
