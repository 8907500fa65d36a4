"""Published tables and figures, run again and shown beside what was printed.

A row names one published result, the independent runs that obtain ours (points), and the function
that compares. Nothing is compared by hand: the verdict is computed from our value and the stated
tolerance. Points are spread over the processes of a cluster (`cluster`) and kept (`cache`).
"""

from studies.reproduction.catalogue import ROWS, catalogue, find, rows
from studies.reproduction.row import Outcome, Published, Row, Verdict
from weir.runs.point import Json, Point

__all__ = [
    "ROWS",
    "Json",
    "Outcome",
    "Point",
    "Published",
    "Row",
    "Verdict",
    "catalogue",
    "find",
    "rows",
]
