"""Arguments that are wrong, told by the command they were given to, with what was likely meant."""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from weir.printable import printable


class _Help(argparse.HelpFormatter):
    """The help of argparse, which would import `shutil` for each option to know how wide it is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """As `shutil.get_terminal_size` has it."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        shown = sys.__stdout__.fileno() if sys.__stdout__ else -1
        return os.get_terminal_size(shown).columns or 80
    except (ValueError, OSError):  # it is closed, or no terminal
        return 80


class Parser(argparse.ArgumentParser):
    """An argparse parser whose sub-commands answer for what they do not know."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": _Help} | options)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuses what is left over here, not in the parser above, whose usage would be shown."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._meant(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Ends with 2; what was typed may have come from anywhere."""
        super().error(printable(message))

    def _meant(self, rest: Iterable[str]) -> str:
        options = [name for name in self._option_string_actions if name.startswith("--")]
        typed = [word.partition("=")[0] for word in rest if word.startswith("--")]
        return nearest(typed[0], options) if typed else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Names the nearest of the choices before it lists them."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        hint = nearest(str(value), names)
        raise argparse.ArgumentError(action, f"there is no {value!r}{hint} ({', '.join(names)})")


def nearest(typed: str, known: Iterable[str]) -> str:
    """`; did you mean X?` if one of them is near, else nothing."""
    # Only here: what is typed right need not wait for it.
    import difflib

    near = difflib.get_close_matches(typed, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
