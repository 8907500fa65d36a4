"""The worked examples of CONTRIBUTING.md name every file that mentions what they tell of.

Each example is told by one that exists. Wherever that one is mentioned by its name in code, tests,
golden tables or pages, the example has to name the file or a folder above it.
"""

import re
from pathlib import Path

import pytest
from test_tidy import ROOT, tracked

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^### \d+\. .+?, as `(.+?)` is\n(.+?)(?=^### |\Z)", TEXT, re.M | re.S))

# How each is mentioned, where its name alone would be found in what has nothing to do with it.
MENTIONS = {
    "panorama": r"[Pp]anorama|\b[Pp]iv\b",
    "verify": r"weir verify|transfer\.verify|cli\.verify|cli/verify|\"verify\": ",
    "read_back": r"read[_-]back\b(?!\()|READ_BACK",
    "network": r"/v1/network|NetworkView|def _network\(args",
    "fluid": r"benches[/.]fluid|results: fluid|\|fluid\||`fluid`|\bSimGrid|\bsimgrid",
}
# Pages that tell of everything, and the table of what was reproduced, which a program writes.
OF_EVERYTHING = {"CONTRIBUTING.md", "CHANGELOG.md", "docs/status.md", "docs/reproduction.md"}


def mention(name: str) -> str:
    camel = "".join(part.capitalize() for part in re.split(r"[_-]", name))
    return MENTIONS.get(name, rf"\b({re.escape(name)}|{camel})\b")


def told(path: Path) -> str:
    """Its text; of Rust without comments, which cite much that they have no part in."""
    text = path.read_text(errors="replace")
    return re.sub(r"^\s*//.*$", "", text, flags=re.M) if path.suffix == ".rs" else text


def mentioning(name: str) -> list[str]:
    """Tracked files whose text or path mentions it."""
    pattern = re.compile(mention(name))
    found = []
    files = tracked(".rs", ".py", ".pyi", ".toml", ".md", ".txt", ".cpp")
    for path in [*files, ROOT / "Makefile", ROOT / "scripts" / "setup"]:
        where = str(path.relative_to(ROOT))
        if where in OF_EVERYTHING or path == Path(__file__) or where.startswith("docs/works"):
            continue
        if pattern.search(told(path)) or pattern.search(where):
            found.append(where)
    return found


def test_there_are_ten_examples():
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_names_every_place(name):
    places = re.findall(r"`([\w./-]+)`", EXAMPLES[name])
    assert places
    found = mentioning(name)
    assert found
    missing = [
        where
        for where in found
        if not any(where == place or where.startswith(f"{place}/") for place in places)
    ]
    assert not missing
