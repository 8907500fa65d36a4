"""What Weir is built on: whence, under which licences, and nothing twice without a reason.

Known advisories are not looked up, as docs/security.md says.
"""

import json
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TARGET = "x86_64-unknown-linux-gnu"

# Licences that may be part of what is built from Weir, which is Apache-2.0.
ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "PSF-2.0",
    "Unicode-3.0",
    "Zlib",
}
# Others, by the package, which is installed beside Weir and loaded as it is.
EXCEPTIONS = {
    "certifi": "MPL-2.0",  # its files stay under their licence, and none is changed
    "hypothesis": "MPL-2.0",  # only tests load it
    "paramiko": "LGPL-2.1",  # may be replaced by whoever installs; Weir loads nothing of it
    "pathspec": "MPL-2.0",  # only mypy loads it
    "psycopg": "LGPL-3.0-only",  # may be replaced by whoever installs
    "psycopg-binary": "LGPL-3.0-only",
    "python-xlib": "LGPL-2.1-or-later",  # may be replaced by whoever installs
    "repoze-lru": "LicenseRef-Repoze-BSD-derived",  # BSD with a clause on names
}
# What Python packages say that name their licence in words.
IN_WORDS = {
    "2-clause BSD": "BSD-2-Clause",
    "Apache 2.0": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "LGPLv2+": "LGPL-2.1-or-later",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Crates in more than one version, and who holds the older ones back.
TWICE = {
    "bit-vec": "yasna, which writes certificates",
    "getrandom": "ring; ahash and const-random of parquet",
    "num-bigint": "der-parser, which reads certificates",
    "rand_core": "rand_xoshiro, from which weir-random draws",
    "syn": "the derive macros of asn1-rs and zerocopy, which run while others are built",
}


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression can be satisfied by `allowed`; `/` is the old `OR`."""
    tokens = re.findall(r"\(|\)|\bAND\b|\bOR\b|/|[\w.+-]+(?: WITH [\w.-]+)?", expression)

    def either() -> bool:
        result = both()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            result = both() or result
        return result

    def both() -> bool:
        result = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            result = one() and result
        return result

    def one() -> bool:
        token = tokens.pop(0)
        if token == "(":
            result = either()
            tokens.pop(0)
            return result
        return token in allowed

    return either()


def locked(path: Path) -> list[dict[str, str]]:
    """The packages of a Cargo.lock."""
    return tomllib.loads(path.read_text(encoding="utf-8"))["package"]


@pytest.fixture(scope="module")
def crates() -> list[dict[str, str]]:
    """Every crate that a build on Linux takes in, tests included, as Cargo describes it."""
    command = f"cargo metadata --format-version 1 --locked --filter-platform {TARGET}"
    said = subprocess.run(command.split(), cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(said.stdout)["packages"]


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT/Apache-2.0", True),
        ("(GPL-2.0-only OR MIT) AND Unicode-3.0", True),
        ("MIT OR Apache-2.0 AND GPL-3.0-only", True),
        ("(MIT OR Apache-2.0) AND GPL-3.0-only", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
    ],
)
def test_a_licence_is_allowed_by_what_its_expression_means(expression, allowed):
    assert is_allowed(expression, ALLOWED) == allowed


def test_every_crate_has_a_licence_that_is_allowed(crates):
    assert len(crates) > 100
    said = {crate["name"]: crate["license"] or "unknown" for crate in crates}
    assert {name: one for name, one in said.items() if not is_allowed(one, ALLOWED)} == {}


def test_every_python_package_has_a_licence_that_is_allowed():
    wrong = {}
    for found in metadata.distributions():
        said = licence(found)
        allowed = ALLOWED | {EXCEPTIONS.get(found.name, "")}
        if not is_allowed(said, allowed):
            wrong[found.name] = said
    assert wrong == {}


def licence(found: metadata.Distribution) -> str:
    """The licence as an SPDX expression, from whichever of three fields has one."""
    said = found.metadata.get("License-Expression") or found.metadata.get("License") or ""
    classified = [
        line.rpartition(" :: ")[2]
        for line in found.metadata.get_all("Classifier") or []
        if line.startswith("License :: OSI Approved :: ")
    ]
    if not said or "\n" in said:
        said = classified[0] if classified else "unknown"
    return IN_WORDS.get(said, said)


def test_every_crate_comes_from_the_registry_with_a_checksum_or_from_here():
    for path in (ROOT / "Cargo.lock", ROOT / "fuzz/Cargo.lock"):
        for crate in locked(path):
            source = crate.get("source")
            if source is None:
                assert crate["name"].startswith("weir-"), crate
            else:
                assert source.startswith("registry+"), crate
                assert len(crate["checksum"]) == 64, crate


def test_no_crate_is_built_in_two_versions_without_a_reason(crates):
    versions: dict[str, set[str]] = {}
    for crate in crates:
        versions.setdefault(crate["name"], set()).add(crate["version"])
    twice = {name for name, found in versions.items() if len(found) > 1}
    assert twice == set(TWICE)


def test_the_fuzz_targets_are_built_with_the_same_versions():
    # Cargo resolves a workspace of its own for them, whose lock file would drift away.
    versions = {(crate["name"], crate["version"]) for crate in locked(ROOT / "Cargo.lock")}
    names = {name for name, _ in versions}
    for crate in locked(ROOT / "fuzz/Cargo.lock"):
        if crate["name"] in names:
            assert (crate["name"], crate["version"]) in versions
