"""Which kind of file a TOML document is, told by a table that it alone has.

Weir reads several kinds, and whoever gives one to a command that takes another is to hear which
command takes it, not what its first line lacks.
"""

from collections.abc import Mapping
from typing import Any

from weir.errors import BadInput

_WORDS = {
    "hosts": "a lab's scenario: weir lab and weir sim take it",
    "transfer": "a demonstration: weir run takes it",
    "vms": "a problem of migrations: weir migrate takes it",
    "nodes": "a calendar's network: weir calendar serve takes it",
}
"""By its table; a problem of migrations has nodes, too, and is told from a network before."""
SCENARIO, DEMONSTRATION, PROBLEM, NETWORK = _WORDS


def kind_of(document: Mapping[str, Any]) -> str | None:
    """The kind of a document; None if it has no kind's table."""
    return next((kind for kind in _WORDS if kind in document), None)


def expect(kind: str, document: Mapping[str, Any], name: str) -> None:
    """Refuses a document of another kind.

    Args:
        kind: what is wanted.
        document: what was read.
        name: what messages call it, normally the file name.

    Raises:
        BadInput: it is of another; the message names the command that takes it.
    """
    found = kind_of(document)
    if found not in (None, kind):
        raise BadInput(f"{name} is {_WORDS[found]}")
