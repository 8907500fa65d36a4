"""The command line's parser: its help is whole, and what is wrong is told with what was meant."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from weir.errors import BadInput
from weir.printable import printable

_USAGE_LINES = 3
_Read = TypeVar("_Read")


class _Help(argparse.HelpFormatter):
    """The help of argparse, as wide as the terminal, whose paragraphs an empty line parts.

    argparse itself would import `shutil` for each option to know how wide it is.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(fill(one, width, indent) for one in text.split("\n\n"))

    def _get_help_string(self, action: argparse.Action) -> str:
        """Adds the default to a text that does not tell it."""
        text, default = action.help or "", action.default
        is_none = default in (None, [], argparse.SUPPRESS) or default is False
        if is_none or "default" in text or str(default) in text:
            return text
        return f"{text} (default %(default)s)"


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


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Sub-commands, whose own help opens with what the list of all says of them."""

    def add_parser(self, name: str, **options: Any) -> Any:
        """As argparse does it."""
        options.setdefault("description", options.get("help"))
        return super().add_parser(name, **options)


class Parser(argparse.ArgumentParser):
    """An argparse parser whose sub-commands answer for what they do not know.

    Attributes:
        familiar: options that people know from other programs, with what is to be said of each.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": _Help} | options)
        self.register("action", "parsers", _Commands)
        self.familiar: Mapping[str, str] = {}

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuses what is left over here, not in the parser above, whose usage would be shown.

        A command that has others shows them to who names none, and takes `help` as well.
        """
        args = list(sys.argv[1:] if args is None else args)
        commands = [one for one in self._actions if isinstance(one, _Commands)]
        if commands and not args:
            self.print_help(sys.stderr)
            missing = f"{commands[0].metavar} is missing: one of those above"
            self.exit(2, f"\n{self.prog}: error: {missing}\n")
        if commands and args[0] == "help":
            args = [*args[1:], "--help"]
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._meant(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Ends with 2; what was typed may have come from anywhere."""
        told = f"{self.prog}: error: {printable(message)}"
        self.exit(2, f"{self._short_usage()}{told} ({self.prog} --help)\n")

    def _short_usage(self) -> str:
        """The usage; without what may be left out where it would hide the error below it."""
        usage = self.format_usage()
        if usage.count("\n") <= _USAGE_LINES:
            return usage
        formatter = self._get_formatter()
        groups = [one for one in self._mutually_exclusive_groups if one.required]
        either = [one for group in groups for one in group._group_actions]
        needed = [one for one in self._actions if one.required or not one.option_strings]
        formatter.add_usage(None, [*either, *needed], groups)
        return formatter.format_help().replace(self.prog, f"{self.prog} [OPTION ...]", 1)

    def _meant(self, rest: Sequence[str]) -> str:
        if told := [text for word in rest for text in self._familiar(word)]:
            return f"; {'; '.join(dict.fromkeys(told))}"
        options = [name for name in self._option_string_actions if name.startswith("--")]
        typed = [word.partition("=")[0] for word in rest if word.startswith("--")]
        return nearest(typed[0], options) if typed else ""

    def _familiar(self, word: str) -> Iterable[str]:
        """What is to be said of a word, or of each of the letters that stand together: `-avz`."""
        name = word.partition("=")[0]
        letters = [] if name.startswith("--") else [f"-{one}" for one in name[1:]]
        names = [name, *letters] if name.startswith("-") else []
        return [self.familiar[one] for one in names if one in self.familiar]

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


def option(kind: Callable[[str], _Read], text: str, name: str) -> _Read:
    """What the text of the option `name` says.

    Raises:
        BadInput: it cannot be read; the message names the option.
    """
    try:
        return kind(text)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None
