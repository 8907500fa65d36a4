"""What commands print: when nobody reads it, and of names that would act on a terminal."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from rig import WEIR

from weir.cli import main
from weir.cli.parser import Parser
from weir.printable import printable, sum_line

ROOT = Path(__file__).parent.parent

# Commands that are there to print: little, much, and without end.
PRINTERS = (
    ["migrate", "plan", "scenarios/migration.toml", "--planner", "greedy"],
    ["reproduce", "--list", "--json"],
    ["probe", "127.0.0.1", "--seconds", "0", "--rate", "50", "--json"],
)


@pytest.mark.parametrize("words", PRINTERS, ids=lambda words: words[0])
def test_a_command_that_only_prints_ends_when_its_reader_leaves(words):
    with subprocess.Popen(
        [WEIR, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (141, "")


@pytest.mark.parametrize(("redirected", "why"), [(">/dev/full", "No space"), (">&-", "Bad file")])
def test_a_command_that_only_prints_fails_when_it_cannot(redirected, why):
    line = f'exec "$@" {redirected}'
    done = subprocess.run(
        ["bash", "-c", line, "bash", WEIR, *PRINTERS[0]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("weir: cannot write to the standard output: " + why)


def test_keys_that_cannot_be_shown_are_no_success(tmp_path):
    subprocess.run([WEIR, "keys", "init", str(tmp_path / "keys")], check=True, capture_output=True)
    command = ["bash", "-c", 'exec "$@" >/dev/full', "bash", WEIR, "keys", "show"]
    done = subprocess.run([*command, str(tmp_path / "keys")], stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1 and b"cannot write to the standard output" in done.stderr


def test_a_failure_is_not_lost_with_its_reader():
    with subprocess.Popen(
        [WEIR, "compare", "/not/there", "/nor/there", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        process.stdout.close()
        assert process.wait(60) == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain name-1.h5", "plain name-1.h5"),
        ("größer → 10 µs", "größer → 10 µs"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\nweir: all is well", "a\\nweir: all is well"),
        ("\x9b2J\x7f\r\t", "\\x9b2J\\x7f\\r\\t"),
        ("report\u202efdp.exe", "report\\u202efdp.exe"),
        (os.fsdecode(b"old\xff"), "old\\xff"),
    ],
)
def test_what_acts_on_a_terminal_is_shown_instead(text, shown):
    assert printable(text) == shown


@given(st.text())
def test_whatever_is_printed_is_one_line_that_can_be_encoded(text):
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown)
    shown.encode()


def test_a_directory_of_keys_acts_on_no_terminal(tmp_path, capsys):
    authority, issued = tmp_path / "keys\x1b[2J", tmp_path / "a\u202eb"
    assert main(["keys", "init", str(authority)]) == 0
    assert main(["keys", "issue", "ana", str(issued), "--authority", str(authority)]) == 0
    assert main(["keys", "revoke", "ana", str(authority)]) == 0
    said = capsys.readouterr().out
    assert not {"\x1b", "\u202e"} & set(said)
    assert (said.count("\\x1b"), said.count("\\u202e")) == (3, 1)


def unescaped(name: str) -> str:
    """As `b3sum --check` reads a name whose line begins with a backslash."""
    pieces = name.split("\\\\")
    return "\\".join(one.replace("\\n", "\n").replace("\\r", "\r") for one in pieces)


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\r\\")))
def test_a_hash_stands_on_one_line_and_is_read_back(name):
    digest = blake3(name.encode()).hexdigest()
    line = sum_line(digest, name.encode())
    assert len(line.splitlines()) == 1
    assert line.removeprefix("\\").startswith(f"{digest}  ")
    shown = line.removeprefix("\\")[len(digest) + 2 :]
    if printable(name.replace("\n", "").replace("\r", "")) == name.translate({10: None, 13: None}):
        assert (unescaped(shown) if line[0] == "\\" else shown) == name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sned", "a", "b"], "did you mean send?"),
        (["nothing-near-it"], "(send, get,"),
        (["send", "a", "b", "--hahses"], "did you mean --hashes?"),
        (["lab", "stat"], "did you mean status?"),
        (["calendar", "lst"], "did you mean list?"),
        (["send", "-r", "a", "b"], "usage: weir send "),
        (["send", "a\x1b[2J", "b", "--c\x1b[2J"], "--c\\x1b[2J"),
    ],
)
def test_a_wrong_word_is_told_by_its_command_with_what_was_meant(words, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--cca", "foo"], "cubic"),
        (["--hash", "md5"], "blake3 or none"),
        (["--rate", "fast"], "--rate: "),
        (["--retry", "ever"], "--retry: "),
    ],
)
def test_an_option_that_cannot_be_names_what_can(option, said, capsys):
    assert main(["send", "/etc/hostname", "127.0.0.1:1/x", "--insecure", *option]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["send", "get", "serve"])
def test_a_command_of_the_mover_waits_for_nothing_that_it_does_not_need(command):
    code = (
        "import sys\nfrom weir.cli import build_parser\n"
        f"build_parser({command!r})\nprint(*sorted(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    modules = set(loaded.split())
    assert f"weir.cli.{command}" in modules
    slow = {"importlib.metadata", "numpy", "rich", "fastapi", "sqlalchemy", "studies", "httpx"}
    slow |= {"statistics", "shutil"}  # milliseconds, of each small transfer
    assert not modules & slow


@pytest.mark.parametrize("told", ["60", "", "0", "wide", None])
def test_help_is_as_wide_as_the_terminal(told, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    if told is not None:
        monkeypatch.setenv("COLUMNS", told)
    width = shutil.get_terminal_size().columns
    formatter = Parser(prog="weir")._get_formatter()
    formatter.add_text("word " * 100)
    longest = max(map(len, formatter.format_help().splitlines()))
    assert width - 2 - len("word ") < longest <= width - 2
