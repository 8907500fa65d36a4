"""Every row that can be run, in the order of the works."""

from weir.errors import BadInput
from weir.reproduce import deadline, migration, pacing, shared_wan
from weir.reproduce.row import Row

ROWS: list[Row] = [*pacing.ROWS, *shared_wan.ROWS, *deadline.ROWS, *migration.ROWS]


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
