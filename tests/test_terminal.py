"""Tables: whole in a pipe, columns left out in a narrow terminal, never a cell that is cut."""

import fcntl
import io
import os
import pty
import struct
import subprocess
import termios

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rig import WEIR

from weir.terminal import Column, Table, beside, console

STUDY = [WEIR, "calendar", "study", "--requests", "50", "--policy", "fixed", "--policy", "weir"]


class Tty(io.StringIO):
    """A terminal's end, as far as printing is concerned."""

    def isatty(self) -> bool:
        return True


def printed(table: Table, width: int | None = None) -> list[str]:
    """The lines of it in a terminal so wide, or in a pipe."""
    stream = io.StringIO() if width is None else Tty()
    shown = (
        console(stream) if width is None else Console(file=stream, width=width, color_system=None)
    )
    shown.print(table)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def cell(row: int, column: int, length: int) -> str:
    """A word that no other cell has in it."""
    return f"<{row}.{column}>".ljust(length, "x")


@st.composite
def tables(draw) -> tuple[Table, list[list[str]]]:
    columns = [
        Column(f"[c{number}]", draw(st.booleans()), draw(st.integers(1, 5)))
        for number in range(draw(st.integers(1, 12)))
    ]
    lengths = st.integers(5, 30)
    rows = [
        [cell(row, column, draw(lengths)) for column in range(len(columns))]
        for row in range(draw(st.integers(0, 5)))
    ]
    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    return table, rows


@given(tables())
def test_a_pipe_gets_every_cell_in_its_column(drawn):
    table, rows = drawn
    lines = printed(table)
    assert len(lines) == 1 + len(rows)
    assert [line.split() for line in lines[1:]] == rows
    assert not any(mark in "".join(lines) for mark in "…│┃━")


@settings(max_examples=50)
@given(tables(), st.integers(31, 200))
def test_a_terminal_gets_whole_columns_or_none(drawn, width):
    table, rows = drawn
    lines = printed(table, width)
    assert all(len(line) <= width for line in lines)
    shown = [line.split() for line in lines[1 : 1 + len(rows)]]
    assert all(
        set(got) <= set(row) and got[0] == row[0] for got, row in zip(shown, rows, strict=True)
    )
    assert len({len(got) for got in shown}) <= 1
    left_out = sum(len(line) for line in lines[1 + len(rows) :])
    assert bool(left_out) == (lines[0].split() != printed(table)[0].split())


def test_the_least_important_goes_first_and_is_named():
    table = Table("name", Column("much", rank=3), Column("little", rank=1), Column("some", rank=2))
    table.add_row("a", "1", "2", "3")
    assert printed(table, 30)[0].split() == ["name", "much", "little", "some"]
    assert printed(table, 20)[0].split() == ["name", "little", "some"]
    assert printed(table, 20)[-1] == "no room for: much"
    assert printed(table, 12)[0].split() == ["name", "little"]


def test_words_go_on_in_the_next_line_of_a_terminal_only():
    table = Table("name", Column("what", folds=True))
    table.add_row("a", "many words " * 10)
    assert len(printed(table)) == 2
    lines = printed(table, 40)
    assert len(lines) > 3
    assert "".join(lines).count("many") == 10


def test_a_text_beside_its_head_breaks_between_words_and_goes_on_below_itself(monkeypatch):
    text = "a lab of real-time links, and weir observe fabric --files, classify and analyse"
    assert beside("head  ", text) == f"head  {text}"
    monkeypatch.setattr("sys.stdout", Tty())
    monkeypatch.setenv("COLUMNS", "40")
    first, *rest = beside("head  ", text).splitlines()
    assert first.startswith("head  a lab") and rest
    assert len(first) <= 40
    assert all(line.startswith("      ") and len(line) <= 40 for line in rest)
    assert " ".join([first.removeprefix("head  "), *map(str.strip, rest)]) == text


def test_a_name_neither_styles_nor_breaks_a_table():
    table = Table("name", "n")
    table.add_row("[bold]x[/]\x1b[2J", "1")
    for lines in (printed(table), printed(table, 60)):
        assert lines[1].split() == ["[bold]x[/]\\x1b[2J", "1"]


@pytest.mark.parametrize("environment", [{}, {"COLUMNS": "40"}, {"TERM": "dumb"}])
def test_a_command_in_a_pipe_prints_whole_columns(environment):
    done = subprocess.run(
        STUDY, capture_output=True, text=True, timeout=60, env=os.environ | environment
    )
    header, *rows = done.stdout.splitlines()
    assert header.endswith("changes per request")
    assert [row.split()[0] for row in rows] == ["fixed", "weir"]
    assert {len(row.split()) for row in rows} == {9}


def test_a_command_in_eighty_columns_prints_fewer():
    """The terminal is a real one: the line discipline of the kernel."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    with subprocess.Popen(STUDY, stdout=theirs, env=environment | {"TERM": "xterm"}) as process:
        os.close(theirs)
        told = b""
        try:
            while piece := os.read(ours, 65_536):
                told += piece
        except OSError:  # EIO: the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    lines = told.decode().splitlines()
    assert "no room for: " in lines[-1]
    assert "…" not in told.decode()
    assert all(line.count(".") >= 1 or "no room" in line for line in lines[1:])
