"""What the command line tells who asks for help, or types what it does not know."""

import argparse

import pytest

from weir.cli import COMMANDS, build_parser, main, plugins
from weir.cli.parser import Parser

USAGE_LINES = 4
NAMES = [*COMMANDS, *plugins.found("weir.commands")]


def below(parser):
    """A command's parser, and those of all the commands below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from below(one)


def parsers(name):
    """The parsers of a command, by what is typed to reach them."""
    top = build_parser(name)
    (commands,) = (one for one in top._actions if isinstance(one, argparse._SubParsersAction))
    return {one.prog: one for one in below(commands.choices[name])}


def arguments(parser):
    commands = argparse._SubParsersAction
    return [one for one in parser._actions if not isinstance(one, commands)]


@pytest.mark.parametrize("name", NAMES)
def test_each_command_says_what_it_does_and_what_each_argument_is(name):
    silent = []
    for typed, parser in parsers(name).items():
        silent += [] if parser.description else [typed]
        silent += [f"{typed} {one.dest}" for one in arguments(parser) if not one.help]
    assert silent == []


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", NAMES)
def test_help_fits_the_terminal(name, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    for parser in parsers(name).values():
        wide = [line for line in parser.format_help().splitlines() if len(line) > columns]
        assert wide == []


@pytest.mark.parametrize("name", NAMES)
def test_help_tells_each_default(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "10000")
    untold = []
    for typed, parser in parsers(name).items():
        text = {line.split()[0]: line for line in parser.format_help().splitlines() if line.split()}
        for one in arguments(parser):
            if one.default in (None, False, []) or one.default is argparse.SUPPRESS:
                continue
            shown = text[(one.option_strings or [one.metavar or one.dest])[0].split()[0]]
            if str(one.default) not in shown and "default" not in shown:
                untold.append(f"{typed} {one.dest}")
    assert untold == []


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_option_is_answered_in_a_few_lines(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for parser in parsers(name).values():
        with pytest.raises(SystemExit, match="2"):
            parser.error("unrecognized arguments: --what")
        told = capsys.readouterr().err.splitlines()
        assert told[0].startswith(f"usage: {parser.prog}") and len(told) <= USAGE_LINES, told
        assert (
            told[-1]
            == f"{parser.prog}: error: unrecognized arguments: --what ({parser.prog} --help)"
        )


def test_a_short_usage_has_all_that_is_needed(capsys):
    for words, needed in (
        (["calendar", "submit", "--what"], "(--by DEADLINE | --window TIMES)"),
        (["calendar", "submit", "--what"], "FROM_HOST:PATH TO_HOST:PATH"),
        (["serve", "--what"], "--listen ADDR:PORT"),
        (["relay", "split", "--what"], "--from NETWORK --to NETWORK[:PORT]"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(words)
        assert needed in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "words", [[], ["lab"], ["calendar"], ["calendar", "token"], ["observe", "fabric"], ["demo"]]
)
def test_who_names_no_command_is_shown_them(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    told = capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--help"])
    shown = capsys.readouterr().out
    assert told.out == "" and told.err.startswith(shown)
    assert told.err.splitlines()[-1].endswith(" is missing: one of those above")


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["help"], ["--help"]),
        (["help", "send"], ["send", "--help"]),
        (["help", "calendar", "submit"], ["calendar", "submit", "--help"]),
        (["lab", "help", "up"], ["lab", "up", "--help"]),
        (["-V"], ["--version"]),
    ],
)
def test_help_is_a_word_too(words, same, capsys):
    told = []
    for one in (words, same):
        with pytest.raises(SystemExit, match="0"):
            main(one)
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] != ""


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("-r", "all that is below it"),
        ("-avz", "nothing is compressed"),
        ("--delete", "weir verify"),
        ("--bwlimit=100M", "--rate"),
        ("-P", "goes on with what was interrupted"),
        ("-L", "--copy-links"),
    ],
)
@pytest.mark.parametrize("command", ["send", "get"])
def test_options_of_other_programs_are_told_as_ours(command, typed, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([command, typed, "a", "127.0.0.1:1/b"])
    assert said in capsys.readouterr().err


def test_no_option_is_told_for_another_that_there_is():
    for command in ("send", "get"):
        parser = parsers(command)[f"weir {command}"]
        assert isinstance(parser, Parser)
        assert not set(parser.familiar) & set(parser._option_string_actions)


WRONG = (
    ["sim", "wan", "--duration"],
    ["sim", "wan", "--warmup"],
    ["sim", "wan", "--seeds", "1-2", "--warmup"],
    ["serve", "--root", ".", "--listen", "127.0.0.1:0", "--insecure", "--silence"],
    ["serve", "--root", ".", "--listen", "127.0.0.1:0", "--insecure", "--quota"],
    ["migrate", "plan", "migration", "--time-limit"],
    ["calendar", "study", "--epoch"],
    ["calendar", "study", "--ahead"],
    ["send", "/etc/hostname", "127.0.0.1:1/x", "--insecure", "--cca", "auto", "--steady"],
    ["observe", "desktop", "capacity", "--server", "1", "--line", "1 Gbit/s", "--bytes"],
)


@pytest.mark.parametrize("words", WRONG, ids=lambda words: f"{words[0]}{words[-1]}")
def test_what_cannot_be_read_is_told_with_its_option(words, capsys):
    assert main([*words, "fast"]) == 2
    assert capsys.readouterr().err.startswith(f'weir: {words[-1]}: "fast"')


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["send", "127.0.0.1:7411/in/a", "."], "weir get"),
        (["send", "[::1]:7411/a", "127.0.0.1:7411/b", "here"], "weir get"),
        (["get", "here", "127.0.0.1:7411/in/a"], "weir send"),
    ],
)
def test_ends_the_wrong_way_round_are_told_with_the_command_that_is_meant(words, meant, capsys):
    assert main([*words, "--insecure"]) == 2
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize("place", ["host:/data", "host", "host:"])
def test_a_place_without_a_port_is_told_so(place, capsys):
    """As scp and rsync have it."""
    assert main(["send", "/etc/hostname", place, "--insecure"]) == 2
    assert "no port; write HOST:PORT/PATH" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["send", "no-such-file", "127.0.0.1:1/x", "--insecure"],
        ["send", "/etc/hostname", "127.0.0.1:1/x", "--insecure"],
        ["send", "/etc/hostname", "127.0.0.1:1/x", "--keys", "no-such-folder"],
        ["serve", "--root", "no-such-folder", "--listen", "127.0.0.1:0", "--insecure"],
        ["serve", "--root", ".", "--listen", "203.0.113.1:1", "--insecure"],
        ["relay", "proxy", "--listen", "203.0.113.1:1", "--server", "127.0.0.1:1"],
        ["keys", "issue", "ana", "keys", "--authority", "no-such-folder"],
        ["verify", "no-such-file", "127.0.0.1:1/x", "--insecure"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_no_message_has_the_number_of_an_error(words, tmp_path, monkeypatch, capsys):
    """What the system says is told in words, as Python tells it: the number says nothing more."""
    monkeypatch.chdir(tmp_path)
    assert main(words) in {2, 3, 6}
    said = capsys.readouterr().err
    assert said.startswith("weir: ") and "os error" not in said
