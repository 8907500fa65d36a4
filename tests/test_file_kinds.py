"""Files of one kind that are given to commands that take another."""

import itertools

import pytest

from weir.cli import main
from weir.errors import BadInput
from weir.lab import load
from weir.shipped import FOLDER

NETWORK = """
nodes = { a = { address = "10.0.0.1" }, b = { address = "10.0.0.2" } }
links = [{ ends = ["a", "b"], capacity = "1 Gbit/s" }]
"""
TAKES = {
    "lab": [["lab", "up"], ["lab", "run"], ["sim"]],
    "run": [["run"]],
    "migrate": [["migrate", "plan"]],
    "calendar": [["calendar", "serve", "--network"], ["control", "serve", "--network"]],
}
"""What is typed before a file of each kind."""


@pytest.fixture
def files(tmp_path):
    """A file of each kind, by the command that takes it."""
    network = tmp_path / "network.toml"
    network.write_text(NETWORK)
    ours = {"lab": "wan", "run": "deadlines", "migrate": "migration"}
    return {kind: FOLDER / f"{name}.toml" for kind, name in ours.items()} | {"calendar": network}


@pytest.mark.parametrize(("asked", "given"), list(itertools.permutations(TAKES, 2)))
def test_a_file_of_another_kind_is_told_with_the_command_that_takes_it(asked, given, files, capsys):
    for words in TAKES[asked]:
        assert main([*words, str(files[given])]) == 2
        said = capsys.readouterr().err
        assert f"{files[given].name} is a" in said and f": weir {given}" in said


def is_scenario(path):
    try:
        load(path)
    except BadInput:
        return False
    return True


@pytest.mark.parametrize(
    ("words", "is_wanted"),
    [
        (["sim"], is_scenario),
        (["lab", "up"], is_scenario),
        (["run"], lambda path: path.stem == "deadlines"),
        (["migrate", "plan"], lambda path: path.stem == "migration"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_an_unknown_name_is_answered_with_those_that_the_command_takes(words, is_wanted, capsys):
    assert main([*words, "no-such-name"]) == 2
    named = capsys.readouterr().err.strip().partition("scenarios: ")[2].split(", ")
    assert named == sorted(path.stem for path in FOLDER.glob("*.toml") if is_wanted(path))
