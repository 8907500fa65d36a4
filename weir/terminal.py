"""Tables for people: whole in a pipe or file, with fewer columns in a narrow terminal.

    table = Table("link", Column("rate", right=True), Column("queued", right=True, rank=2))
    table.add_row("a → b", "100 Mbit/s", "3 kB")
    console().print(table)

No cell is ever cut: a column that has no room is left out as a whole, and named below.
"""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from weir.printable import printable

_GAP = 2
_FOLDED = 24  # columns that words at least have
_BOUNDLESS = 100_000  # columns: lines of a pipe are as long as they are


def console(stream: TextIO | None = None) -> Console:
    """Where tables and lines go; a pipe or file has no width, and nothing is broken or cut."""
    stream = stream or sys.stdout
    width = None if stream.isatty() else _BOUNDLESS
    return Console(file=stream, width=width, highlight=False, markup=False)


def beside(head: str, text: str) -> str:
    """A text right of its head; in a narrow terminal it goes on below its own beginning."""
    width = console().width
    if width == _BOUNDLESS:
        return f"{head}{text}"
    room = max(width - cell_len(head), _FOLDED)
    folded = textwrap.wrap(text, room, break_on_hyphens=False)
    return head + f"\n{' ' * cell_len(head)}".join(folded)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: what stands above it.
        right: figures stand at its right edge.
        rank: where there is no room the highest goes first, of equal ones the rightmost.
        folds: its words may go on in further lines of a narrow terminal.
    """

    title: str
    right: bool = False
    rank: int = 1
    folds: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    cells: Sequence[Text]
    style: str


class Table:
    """Rows under titles, to be printed by `console` or shown in its picture.

    The first column is always there.
    """

    def __init__(self, *columns: Column | str) -> None:
        self._columns = [Column(one) if isinstance(one, str) else one for one in columns]
        self._rows: list[_Row] = []

    @property
    def row_count(self) -> int:
        """How many rows it has."""
        return len(self._rows)

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        """Adds a row with a cell for each column; a cell may have several lines."""
        if len(cells) != len(self._columns):
            raise ValueError(f"{len(cells)} cells for {len(self._columns)} columns")
        texts = [one if isinstance(one, Text) else Text(_lines(one)) for one in cells]
        self._rows.append(_Row(texts, style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """In a terminal what fits, elsewhere all of it as plain text."""
        if not console.file.isatty():
            for line in self._plain():
                yield Segment(line)
                yield Segment.line()
            return
        kept = self._fitting(options.max_width)
        yield self._rich(kept)
        if missing := [one.title for i, one in enumerate(self._columns) if i not in kept]:
            told = f"no room for: {', '.join(filter(None, missing))}"
            yield Text(told, style="dim", overflow="fold")

    def _plain(self) -> Iterator[str]:
        widths = self._widths()
        title_row = [Text(one.title) for one in self._columns]
        for cells in (title_row, *(row.cells for row in self._rows)):
            split = [cell.plain.split("\n") for cell in cells]
            for number in range(max(map(len, split))):
                pieces = [lines[number] if number < len(lines) else "" for lines in split]
                padded = map(_padded, pieces, widths, self._columns)
                if line := (" " * _GAP).join(padded).rstrip():
                    yield line

    def _widths(self) -> list[int]:
        widths = [cell_len(one.title) for one in self._columns]
        for row in self._rows:
            for index, cell in enumerate(row.cells):
                widths[index] = max(widths[index], *map(cell_len, cell.plain.split("\n")))
        return widths

    def _fitting(self, room: int) -> list[int]:
        """Which columns there is room for, in their order."""
        least = [
            min(width, _FOLDED) if column.folds else width
            for width, column in zip(self._widths(), self._columns, strict=True)
        ]
        kept = list(range(len(self._columns)))
        while len(kept) > 1 and sum(least[i] + _GAP for i in kept) - _GAP > room:
            kept.remove(max(kept[1:], key=lambda i: (self._columns[i].rank, i)))
        return kept

    def _rich(self, kept: Sequence[int]) -> RenderableType:
        named = any(one.title for one in self._columns)
        table = RichTable(box=None, padding=(0, _GAP // 2), pad_edge=False, show_header=named)
        for index in kept:
            column = self._columns[index]
            table.add_column(
                Text(column.title),
                justify="right" if column.right else "left",
                overflow="fold",
                # Alone it may be wider than the terminal.
                no_wrap=len(kept) > 1 and not column.folds,
            )
        for row in self._rows:
            table.add_row(*(row.cells[index] for index in kept), style=row.style or None)
        return table


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _padded(text: str, width: int, column: Column) -> str:
    space = " " * (width - cell_len(text))
    return space + text if column.right else text + space
