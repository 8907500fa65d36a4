"""`weir completion`: what a shell asks to complete a command by.

A shell is given a few lines that ask `weir` at each Tab, so what is proposed is what the parser
takes, commands of other packages among it.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence

from weir.cli import build_parser, output

_EPILOG = """\
In bash, for good: echo 'source <(weir completion bash)' >> ~/.bashrc. In zsh: the same with zsh,
into ~/.zshrc, below compinit. In fish: weir completion fish > ~/.config/fish/completions/weir.fish.
File names are completed where a file may stand."""

_BASH = r"""
_weir() {
    local IFS=$'\n'
    COMPREPLY=($("$1" completion bash "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null | cut -f1))
}
complete -o bashdefault -o default -F _weir weir
"""

_ZSH = r"""
_weir() {
    local -a found
    found=("${(@f)$("$words[1]" completion zsh "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    found=("${(@)${(@)found//:/\\:}/$'\t'/:}")
    if [[ -n $found ]]; then _describe weir found; else _files; fi
}
compdef _weir weir
"""

_FISH = r"""
function __weir_words
    set -l found ($argv[1] completion fish $argv 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path $argv[-1]
    end
end
complete -c weir -f -a '(__weir_words (commandline -opc) (commandline -ct))'
"""

SHELLS = {"bash": _BASH, "fish": _FISH, "zsh": _ZSH}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=[*SHELLS], help="the shell that the lines are for")
    parser.add_argument(
        "word",
        nargs=argparse.REMAINDER,
        metavar="WORD",
        help="a command as far as it is typed: how its last word may go on (asked by those lines)",
    )


def run(args: argparse.Namespace) -> int:
    """Prints the lines for a shell, or what may stand for the last word."""
    output.is_the_work()
    if not args.word:
        sys.stdout.write(SHELLS[args.shell].lstrip())
        return 0
    for word, meaning in proposed(args.word[1:] or [""]):
        print(f"{word}\t{meaning}" if meaning else word)
    return 0


def proposed(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What may stand for the last of the words after `weir`, each with what it means.

    Nothing where a file, an address or a value may stand that no list has.
    """
    # bash parts `--hash=none` into three words, the others do not.
    before = [word for word in words[:-1] if word != "="]
    typed = words[-1].removeprefix("=")
    named = next((word for word in before if word != "help"), "")
    parser, asked = _reached(build_parser(named), before)
    option, equals, _ = typed.partition("=")
    if asked is None and equals and option.startswith("--"):
        asked = parser._option_string_actions.get(option)
        found: Iterable[tuple[str, str]] = [(f"{option}={one}", "") for one, _ in _values(asked)]
    elif asked is not None:
        found = _values(asked)
    elif typed.startswith("-") and "--" not in before:
        found = _options(parser)
    else:
        found = _positional(parser, before)
    return (one for one in found if one[0].startswith(typed))


def _reached(
    parser: argparse.ArgumentParser, words: Iterable[str]
) -> tuple[argparse.ArgumentParser, argparse.Action | None]:
    """The command that words lead to, and the option among them that waits for its value."""
    asked: argparse.Action | None = None
    for word in words:
        if asked is not None:
            asked = None
            continue
        option = parser._option_string_actions.get(word)
        if option is not None:
            asked = option if option.nargs != 0 else None
        else:
            parser = _below(parser).get(word, parser)
    return parser, asked


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if action.help is not argparse.SUPPRESS:
            yield from ((name, _meaning(parser, action)) for name in action.option_strings)


def _positional(
    parser: argparse.ArgumentParser, before: Sequence[str]
) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from ((one.dest, _meaning(parser, one)) for one in action._choices_actions)
            if before[-1:] != ["help"]:
                yield "help", "what a command does and takes"
        elif not action.option_strings and not {one for one, _ in _values(action)} & {*before}:
            yield from _values(action)


def _values(action: argparse.Action | None) -> Iterator[tuple[str, str]]:
    """The values that an argument's list has, if it has one."""
    if action is not None and action.choices is not None:
        yield from ((str(one), "") for one in action.choices)


def _meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """What help says of an argument, in one line."""
    return " ".join(parser._get_formatter()._expand_help(action).split())
