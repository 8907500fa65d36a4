"""Both halves side by side, for the terminal."""

from typing import TextIO

from rich.text import Text

from studies.demonstration.report import Delivery, Half, Result, format
from weir.format import percent, size
from weir.terminal import Column, Table, console


def show(result: Result, stream: TextIO) -> None:
    """Prints the table, the link's utilisation and the headline."""
    shown = console(stream)
    shown.print()
    shown.print(_table(result))
    for title, half in (("with Weir", result.weir), ("plain TCP", result.plain)):
        shown.print(_line(title, half, result.scenario.bottleneck))
    shown.print()
    style = "bold green" if result.kept_every_promise else "bold red"
    shown.print(Text(format.headline(result), style))


def _table(result: Result) -> Table:
    table = Table(
        "file",
        Column("size", right=True, rank=4),
        Column("deadline", right=True, rank=3),
        Column("with Weir", right=True, rank=2),
        "",
        Column("plain TCP", right=True, rank=2),
        "",
        Column("intact", rank=1),
    )
    for ours, theirs in zip(result.weir.deliveries, result.plain.deliveries, strict=True):
        intact = ours.verified and theirs.verified
        table.add_row(
            Text(ours.id, "bold"),
            size(ours.bytes),
            f"{ours.deadline_s:.1f} s",
            *_cells(ours),
            *_cells(theirs),
            Text("both" if intact else "NO", "" if intact else "bold red"),
        )
    return table


def _cells(delivery: Delivery) -> tuple[Text, Text]:
    finish = "-" if delivery.finish_s is None else f"{delivery.finish_s:.1f} s"
    style, mark = ("green", "✓") if delivery.on_time else ("red", "✕")
    return Text(finish), Text(f"{mark} {format.verdict(delivery)}", style)


def _line(title: str, half: Half, bottleneck: str) -> Text:
    return Text.assemble(
        (f"{title}: ", "bold"),
        f"{format.tally(half)} on time, worst case {format.extreme(half)}, ",
        f"{half.verified} of {len(half.deliveries)} verified, ",
        f"{bottleneck} {percent(half.utilisation)} in use",
    )
