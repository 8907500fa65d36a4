"""One independent run, and the JSON that it takes and gives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

# What JSON can say; sequences come back from the cache and from workers as lists.
Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Point:
    """One independent run: same arguments, same result, on any machine and in any process.

    Attributes:
        run: a function of a module, called as `run(**arguments)`.
        arguments: everything that the result depends on, the seed among it.
    """

    run: Callable[..., Json]
    arguments: Mapping[str, Json]
