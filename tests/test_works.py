"""What code and documents cite of the five works stands in docs/works.md."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "works.md"
KINDS = ("*.py", "*.rs", "*.md", "*.toml", "*.js", "*.sh")

_NUMBER = r"\d+(?:\.\d+)*"
_NUMBERS = rf"{_NUMBER}(?:(?:, | and | to |-){_NUMBER})*"
# A line of text or of a comment may end within a citation.
_GAP = r"(?:\s|//[/!]?|\#)+"
_SECTIONS = re.compile(rf"(00[0-4])-spec,?(?:{_GAP}sections?)?{_GAP}({_NUMBERS})(?![\w%])")
# `AMB-16…20` and `AMB-10 to AMB-13` are ranges; A1 to A25 are work 002's, where deadlines are.
_READINGS = re.compile(r"\b(AMB-|[AD]-)(\d+)(?:(?: to |…)(?:AMB-)?(\d+))?\b(?!-)")
_OF_DEADLINES = re.compile(r"\b(A)(\d{1,2})()\b")


def cited_sections(text):
    """The work and the section of each citation, as text."""
    for work, numbers in _SECTIONS.findall(text):
        for number in re.findall(_NUMBER, numbers):
            yield work, number


def texts():
    """Every file of words or code that is the project's own, this page and results left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *KINDS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.rstrip("\0").split("\0"):
        path = ROOT / name
        if path not in (PAGE, Path(__file__)) and "docs/reproduction" not in name:
            yield name, path.read_text(encoding="utf-8", errors="replace")


def known():
    """The sections and the readings that the page explains, by work."""
    parts = re.split(r"^## Work (00[0-4])", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    first = re.compile(r"^\| ([\w.-]+) \|", re.MULTILINE)
    return {
        work: set(first.findall(part)) for work, part in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_every_section_that_is_cited_is_explained():
    rows = known()
    assert list(rows) == ["000", "001", "002", "003", "004"]
    found = [(name, *cited) for name, text in texts() for cited in cited_sections(text)]
    assert len(found) > 150
    assert [one for one in found if one[2] not in rows[one[1]]] == []


def cited_readings(name, text):
    """Each reading's name; of a range, all."""
    found = _READINGS.findall(text)
    if "deadline" in name:
        found += _OF_DEADLINES.findall(text)
    for prefix, first, last in found:
        for number in range(int(first), int(last or first) + 1):
            yield f"{prefix}{number}"


def test_every_reading_that_is_cited_is_explained():
    rows = set().union(*known().values())
    found = [(name, one) for name, text in texts() for one in cited_readings(name, text)]
    assert {one[0] for _, one in found} == {"A", "D"}
    assert len(found) > 60
    assert [one for one in found if one[1] not in rows] == []


def test_what_counts_as_a_citation():
    assert list(cited_sections("(000-spec sections 2.1 and 2.2)")) == [
        ("000", "2.1"),
        ("000", "2.2"),
    ]
    assert list(cited_sections("003-spec section\n/// 5.4.1; 001-spec 6.4: 20 s")) == [
        ("003", "5.4.1"),
        ("001", "6.4"),
    ]
    assert list(cited_readings("", "AMB-16…18, A-12, D-2")) == [
        *("AMB-16", "AMB-17", "AMB-18"),
        *("A-12", "D-2"),
    ]
    assert list(cited_readings("deadline.md", "| A2, A4 |")) == ["A2", "A4"]
