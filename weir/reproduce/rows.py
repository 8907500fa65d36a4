"""Every row that can be run, in the order of the works."""

from weir.errors import BadInput
from weir.reproduce import deadline, migration, pacing, shared_wan
from weir.reproduce.row import Row

ROWS = [
    Row(
        "000-fig-1.4-fluid",
        "Two transfers over 500 Mbit/s, paced and then released by the calendar",
        "critical done by its 120 s; both complete (derived: 105.3 s and 240.0 s)",
        pacing.fluid,
    ),
    Row(
        "000-fig-1.4",
        "The same on the kernel's TCP in the lab at a tenth of the size, unpaced and paced",
        "unpaced: the critical transfer misses its deadline; paced: it meets it, both complete",
        pacing.live,
    ),
    Row(
        "001-fig-3.2",
        "The shared WAN: 500 Mbit/s, 65 ms, 6 MiB tail-drop queue, one CUBIC flow",
        "queueing adds up to 100 ms to the RTT (Fig. 2.5); the flow fills the link",
        shared_wan.one_cubic_flow,
    ),
    *deadline.ROWS,
    *migration.ROWS,
]


def find(ids: list[str]) -> list[Row]:
    """The rows called `ids`, or all of them for none.

    Raises:
        BadInput: there is no such row.
    """
    known = {row.id: row for row in ROWS}
    for id_ in ids:
        if id_ not in known:
            raise BadInput(f"there is no row {id_}; the rows are {', '.join(known)}")
    return [known[id_] for id_ in ids] or ROWS
