"""What a run measured, and the page that shows it.

`Result` is the data (and the shape of `result.json`); `page.render` turns it into one HTML file
that needs nothing else; `write` puts both into a folder.
"""

from studies.demonstration.report.result import (
    Decision,
    Delivery,
    Half,
    Link,
    Node,
    Result,
    Scenario,
    Timeline,
)
from studies.demonstration.report.write import write

__all__ = [
    "Decision",
    "Delivery",
    "Half",
    "Link",
    "Node",
    "Result",
    "Scenario",
    "Timeline",
    "write",
]
