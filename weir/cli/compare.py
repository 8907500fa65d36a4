"""`weir compare`: two results of a scenario side by side."""

import argparse
from pathlib import Path

from weir import files
from weir.cli import output
from weir.errors import BadInput
from weir.printable import printable
from weir.sim.compare import Figure, bars, compare, plot, read

_EPILOG = """\
A and B are what `weir sim --json` or `weir lab run --json` printed, or the result.json of
`weir sim --out`.

exit codes: 0 done; 2 a file that does not hold such a result."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("a", metavar="A", help="the first result (JSON)")
    parser.add_argument("b", metavar="B", help="the second result (JSON)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write an SVG image, too")
    parser.add_argument("--json", action="store_true", help="print JSON for machines")


def run(args: argparse.Namespace) -> int:
    """Prints both, quantity by quantity."""
    output.is_the_work()
    figures = compare(read(args.a), read(args.b))
    if args.plot:
        try:
            names = (printable(args.a), printable(args.b))
            with files.whole(args.plot) as partial:
                partial.write_text(plot(figures, names), encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{args.plot}: {error.strerror}") from None
    if args.json:
        print(output.json_line([vars(figure) | {"ratio": figure.ratio} for figure in figures]))
        return 0
    _print(figures, args.a, args.b)
    return 0


def _print(figures: list[Figure], first: str, second: str) -> None:
    # Only here, so that --json starts without it.
    from weir.terminal import Column, Table, console

    both = (Column(title, right=True, folds=True) for title in (first, second))
    ratio_of = Column("B / A", right=True)
    table = Table("what", "quantity", *both, ratio_of, Column("A over B", rank=2))
    for figure in figures:
        values = ["" if value is None else f"{value:.4g}" for value in figure.values]
        ratio = "" if figure.ratio is None else f"{figure.ratio:.3f}"
        table.add_row(figure.subject, figure.quantity, *values, ratio, "\n".join(bars(figure)))
    console().print(table)
