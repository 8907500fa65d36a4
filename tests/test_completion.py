"""What bash, zsh and fish propose at Tab, asked of the shells themselves."""

import argparse
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from rig import PATIENCE_S, WEIR

from weir.cli import COMMANDS, build_parser, main, plugins
from weir.cli.completion import SHELLS, proposed

NAMES = [*COMMANDS, *plugins.found("weir.commands")]
SOURCED = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(weir completion bash)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -U compinit; compinit -u -D; source <(weir completion zsh)",
    ),
}
ENV = os.environ | {
    "PATH": f"{Path(WEIR).parent}:{os.environ['PATH']}",
    "TERM": "dumb",
    "PS1": "> ",
    "HISTFILE": "/dev/null",
}


def needs(shell):
    """zsh and fish are not on every machine that runs the tests; bash is."""
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


class Terminal:
    """A shell in front of a person."""

    def __init__(self, command, place):
        self.shown = ""
        self.pid, self.device = pty.fork()
        if self.pid == 0:
            os.chdir(place)
            os.execvpe(command[0], command, ENV)

    def type(self, text):
        os.write(self.device, text.encode())

    def sees(self, text):
        """Reads until something is shown, within a bound."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            ready, _, _ = select.select([self.device], [], [], end - time.monotonic())
            assert ready, f"{text!r} is not shown: {self.shown!r}"
            self.shown += os.read(self.device, 4096).decode(errors="replace")
        self.shown = self.shown.partition(text)[2]

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.device)


@pytest.fixture(params=[pytest.param(shell, marks=needs(shell)) for shell in SOURCED])
def terminal(request, tmp_path):
    (tmp_path / "measured.h5").touch()
    command, sourced = SOURCED[request.param]
    shell = Terminal(command, tmp_path)
    shell.type(f"{sourced}; echo rea''dy\n")
    shell.sees("ready")
    yield shell
    shell.close()


def test_a_shell_completes_commands_options_values_and_files(terminal):
    for typed, completed in (
        ("weir doc", "weir doctor "),
        ("weir calendar sub", "weir calendar submit "),
        ("weir send --copy", "weir send --copy-links "),
        ("weir completion fi", "weir completion fish "),
        ("weir send mea", "weir send measured.h5 "),
        ("weir send --keys mea", "weir send --keys measured.h5 "),
    ):
        terminal.type(typed)
        terminal.sees(typed)
        terminal.type("\t")
        terminal.sees(completed.removeprefix(typed))
        terminal.type("\x15")  # the line is taken back


@needs("fish")
def test_fish_completes_the_same(tmp_path):
    (tmp_path / "measured.h5").touch()

    def asked(line):
        code = f"weir completion fish | source; complete -C '{line}'"
        options = {"env": ENV | {"HOME": str(tmp_path)}, "cwd": tmp_path, "text": True}
        return subprocess.check_output(["fish", "--no-config", "-c", code], **options)

    summary = COMMANDS["doctor"]
    assert asked("weir doc") == f"doctor\t{summary}\n"
    assert asked("weir send --copy").startswith("--copy-links\t")
    assert asked("weir send mea").startswith("measured.h5")


@pytest.mark.parametrize("name", NAMES)
def test_every_option_that_help_has_is_proposed(name):
    for words, parser in below([name], build_parser(name)):
        told = re.findall(r"^  (?:-\w(?: \w+)?, )?(--[\w-]+)", parser.format_help(), re.M)
        assert {one for one, _ in proposed([*words, "--"])} == {*told}, words


def below(words, parser):
    """What is typed for each of the commands of a parser that are asked for, with its own."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, one in action.choices.items():
                if name in words[-1:]:
                    yield words, one
                    yield from ((w, p) for sub in names(one) for w, p in below([*words, sub], one))


def names(parser):
    found = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    return [name for action in found for name in action.choices]


def test_all_commands_are_proposed_and_what_takes_a_value_is_not_one():
    listed = [one for one, _ in proposed([""])]
    assert listed == [*NAMES, "help"]
    assert list(proposed(["send", "--rate", ""])) == []
    assert [one for one, _ in proposed(["help", "doc"])] == ["doctor"]
    assert list(proposed(["send", "--", "--"])) == []


def test_values_of_an_option_are_proposed_however_a_shell_parts_words():
    option = ["calendar", "elephant", "add", "--protocol"]
    *words, name = option
    for last in ([""], ["=", ""], ["="]):
        assert [one for one, _ in proposed([*option, *last])] == ["tcp", "udp"]
    assert [one for one, _ in proposed([*words, f"{name}=u"])] == [f"{name}=udp"]
    assert list(proposed([*option, "udp", "x"])) == []
    assert [one for one, _ in proposed(["observe", "desktop", "mark", ""])] == ["start", "end"]
    assert list(proposed(["observe", "desktop", "mark", "start", ""])) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_the_lines_for_a_shell_are_printed(shell, capsys):
    assert main(["completion", shell]) == 0
    assert f"completion {shell}" in capsys.readouterr().out
