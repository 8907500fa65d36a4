"""No verdict is a foregone conclusion: whoever judges can say that ours differs."""

import ast
from pathlib import Path

import pytest

import studies
from studies.reproduction.catalogue import catalogue
from studies.reproduction.page import load
from studies.works.row import Verdict

MODULES = sorted(Path(studies.__file__).parent.glob("works/*/ch*.py"))
DOCS = Path(__file__).parents[3] / "docs"


def functions(tree):
    return {x.name: x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef)}


def verdicts(function, known, seen=()):
    """The names of `Verdict` that a function mentions, or those that it calls or is nested in."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "Verdict":
            names.add(node.attr)
        called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
        if called in known and called not in seen:
            names |= verdicts(known[called], known, (*seen, called))
    return names


def judges(tree):
    """Every outermost function that makes an `Outcome`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(x, ast.Call) and getattr(x.func, "id", "") == "Outcome"
            for x in ast.walk(node)
        ):
            yield node


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_every_judge_can_say_that_ours_differs(module):
    tree = ast.parse(module.read_text())
    known = functions(tree)
    for judge in judges(tree):
        assert "DIFFERS" in verdicts(judge, known), f"{module.name}:{judge.lineno} {judge.name}"


def test_the_judges_of_all_works_are_among_them():
    assert {module.parent.name for module in MODULES} == {"w000", "w001", "w002", "w003", "w004"}
    assert sum(len(list(judges(ast.parse(module.read_text())))) for module in MODULES) > 30


def test_what_has_nothing_published_beside_it_is_called_ours():
    records = load(DOCS)
    for row in catalogue():
        if row.published.startswith("not published") and row.id in records:
            assert records[row.id].verdict in {Verdict.OURS, Verdict.DIFFERS}, row.id
        elif row.id in records:
            assert records[row.id].verdict != Verdict.OURS, row.id
