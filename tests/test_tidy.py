"""The repository checks itself: what style and honesty ask for, as far as a machine can see it."""

import ast
import graphlib
import pkgutil
import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from weir.cli import COMMANDS, plugins

ROOT = Path(__file__).parent.parent
CODE = {".py", ".rs", ".sh"}
LINE_MAX = 100
FUNCTION_MAX = 70
PAGE_MAX = 4000  # words

# What must not stand in shipped code, and what to write instead.
BANNED = {
    ".rs": {
        r"\bdbg!": "tracing",
        r"\btodo!\(|\bunimplemented!\(": "the real thing",
    },
    ".py": {
        r"\bTODO\b|\bFIXME\b|\bXXX\b": "an issue",
        r"\bbreakpoint\(": "nothing",
    },
}
SLEEPS = r"\btime\.sleep\(|thread::sleep\("


def tracked(*suffixes: str) -> Iterator[Path]:
    """Files that git tracks here, or would: the working tree less what is ignored."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        path = ROOT / name
        if path.is_file() and (not suffixes or path.suffix in suffixes):
            yield path


def offences(pattern: str, *suffixes: str, under: str = "") -> list[str]:
    """`file:line` of every match in the tracked files below `under`, this file excepted."""
    found = []
    for path in tracked(*suffixes):
        name = str(path.relative_to(ROOT))
        if not name.startswith(under) or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if re.search(pattern, line):
                found.append(f"{name}:{number}: {line.strip()}")
    return found


def test_no_line_of_code_is_longer_than_a_screen_is_wide():
    assert not offences(rf"^.{{{LINE_MAX + 1},}}$", *CODE)


@pytest.mark.parametrize(
    ("suffix", "pattern", "instead"),
    [
        (suffix, pattern, instead)
        for suffix, table in BANNED.items()
        for pattern, instead in table.items()
    ],
)
def test_banned_words_are_absent(suffix, pattern, instead):
    assert not offences(pattern, suffix), f"use {instead}"


def test_docstrings_comments_and_help_name_their_subject():
    """What opens with "Of …" leaves it to the reader to find out what is meant of it."""
    assert not offences(r'^\s*(#|//[/!]?) Of |"""Of |help=f?"[Oo]f ', *CODE, ".pyi")


def test_python_functions_fit_a_screen():
    long = []
    for path in tracked(".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_MAX:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {length}")
    assert not long


def test_tests_poll_for_a_state_instead_of_sleeping_and_hoping():
    # A bounded poll needs a pause: it is allowed only inside a loop, that is, indented twice.
    assert not offences(rf"^ {{0,7}}(?:{SLEEPS})", ".py", under="tests/")


def anchors(page: Path) -> set[str]:
    """What `#…` may name on a page, as GitHub makes it of the headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}


def test_links_in_the_documents_lead_somewhere():
    broken = []
    for path in tracked(".md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
            file, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            page = path.parent / file if file else path
            if not page.exists() or (anchor and anchor not in anchors(page)):
                broken.append(f"{path.relative_to(ROOT)} -> {target}")
    assert not broken


FOLDERS = "weir|studies|crates|tests|benches|docs|scenarios|scripts|fuzz"
# A path or a module in backticks, which may go on with what the file has: `a.py::name`.
_PATHS = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)")
_MODULES = re.compile(r"`((?:weir|studies|benches)(?:\.\w+)+)[`(]")


def test_files_that_the_documents_name_exist():
    gone = []
    for path in tracked(".md"):
        for name in _PATHS.findall(path.read_text()):
            if not (ROOT / name).exists():
                gone.append(f"{path.relative_to(ROOT)}: {name}")
    assert not gone


def test_sources_and_tests_that_the_documents_name_exist():
    # Shorter than a path: `guests.rs`, `sender/rack.rs`, `test_what_a_test_says`.
    sources = [f"/{path.relative_to(ROOT)}" for path in tracked(".py", ".pyi", ".rs")]
    tests = {
        name
        for path in tracked(".py")
        if path.name.startswith("test_")
        for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    gone = []
    for path in tracked(".md"):
        text = path.read_text()
        files = re.findall(r"`([\w/-]+\.(?:pyi?|rs))\b", text)
        names = set(re.findall(r"`(test_\w+)`", text)) - tests
        missing = [name for name in files if not any(one.endswith(f"/{name}") for one in sources)]
        gone += [f"{path.relative_to(ROOT)}: {name}" for name in (*missing, *names)]
    assert sorted(set(gone)) == []


def is_importable(name: str) -> bool:
    """Whether a dotted name is a module, or what a module has."""
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


def test_modules_that_the_documents_name_exist():
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in tracked(".md")
        for name in _MODULES.findall(path.read_text())
    }
    assert len(named) > 10
    assert [one for one in sorted(named) if not is_importable(one[1])] == []


def test_pages_for_users_are_read_in_one_sitting():
    # What referees need besides stands in an appendix; `weir reproduce` writes the page of results.
    pages = {page.name: len(page.read_text().split()) for page in (ROOT / "docs").glob("*.md")}
    generated = {"reproduction.md"}
    users = {name for name in pages if not name.endswith("-appendix.md")} - generated
    assert len(users) > 20
    assert {name: pages[name] for name in users if pages[name] > PAGE_MAX} == {}


def test_the_readme_lists_every_page():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [page.name for page in (ROOT / "docs").glob("*.md")]
    assert len(pages) > 20
    assert [page for page in pages if f"(docs/{page})" not in readme] == []


def test_every_command_is_in_the_documents():
    text = "".join(path.read_text() for path in tracked(".md"))
    names = [*COMMANDS, *plugins.found("weir.commands")]
    names += [f"ops {name}" for name in plugins.found("weir.ops")]
    assert {"send", "run", "ops train"} < set(names)
    assert not [name for name in names if f"weir {name}" not in text]


def test_every_command_has_its_module():
    missing = [name for name in COMMANDS if not (ROOT / f"weir/cli/{name}.py").exists()]
    assert not missing


def test_crates_depend_on_those_above_them_alone():
    """Their order is that of docs/architecture.md: what is pure above the worlds that run it."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    order = re.search(r"^`(\{units.+?) → weir/\*", page, re.M | re.S)
    assert order
    tiers = [re.findall(r"\w+", tier) for tier in order[1].split("→")]
    place = {crate: number for number, tier in enumerate(tiers) for crate in tier}
    manifests = {path.parent.name: path for path in (ROOT / "crates").glob("*/Cargo.toml")}
    assert place.keys() == manifests.keys()
    wrong = []
    for crate, path in manifests.items():
        for name in tomllib.loads(path.read_text())["dependencies"]:
            other = name.removeprefix("weir-")
            if other != name and place[other] >= place[crate]:
                wrong.append(f"{crate} -> {other}")
    assert not wrong


def test_the_product_never_imports_studies_nor_its_own_command_line():
    wrong = []
    for path in tracked(".py"):
        name = str(path.relative_to(ROOT))
        if name.startswith("weir/"):
            reached = {module for module in imported(path) if module.split(".")[0] == "studies"}
            if not name.startswith("weir/cli/"):
                reached |= {module for module in imported(path) if module.startswith("weir.cli")}
            wrong += [f"{name} -> {module}" for module in sorted(reached)]
    assert not wrong


def test_one_file_calls_the_packet_simulator():
    """It takes a scenario, so that only `weir/sim` writes what the core reads."""
    named = r"weir\._core import .*\bsimulate_packets\b|_core\.simulate_packets"
    calling = {one.split(":")[0] for one in offences(named, ".py")}
    tests = {one for one in calling if one.startswith("tests/")}
    assert calling - tests == {"weir/sim/core.py"}


def imported(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it it does."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_no_file_names_a_machine_or_a_registry_host():
    host = r"pypi\.org|pythonhosted|crates\.io/|registry\.npmjs|proxy\.golang|deb\.debian"
    lock = ROOT / "Cargo.lock"  # cargo writes its registry's index into every lock file
    found = offences(rf"{host}|/work/(main|shared)|/tmp/wt/")
    assert not [line for line in found if not line.startswith(lock.name)]


def test_the_changelog_opens_with_what_is_unreleased():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    headings = [line for line in lines if line.startswith("## ")]
    assert headings
    assert headings[0] == "## Unreleased"


def test_every_crate_opens_by_saying_what_it_is():
    silent = [
        str(path.relative_to(ROOT))
        for path in tracked(".rs")
        if path.name == "lib.rs" and not path.read_text().startswith("//!")
    ]
    assert not silent


def test_the_version_stands_in_two_places_and_agrees():
    cargo = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)
    wheel = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert cargo
    assert wheel
    assert cargo[1] == wheel[1]


def test_no_two_test_files_share_a_name():
    # pytest imports them by their bare names and would stop at the second.
    names = [path.name for path in tracked(".py") if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))


def test_every_installed_package_is_pinned_and_is_what_the_tests_run_with():
    # A new release of a dependency must not decide whether a clone of yesterday works.
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    pins = {canonical(name): version for name, version in pins.items()}
    installed = {canonical(found.name): found.version for found in metadata.distributions()}
    # A checkout that was set up before the distribution was renamed has it as `weir`.
    of_the_environment = {"weir-net", "weir", "pip", "setuptools"}
    assert len(installed) > len(of_the_environment)
    others = {
        f"{name} {version}"
        for name, version in installed.items()
        if name not in of_the_environment and pins.get(name) != version
    }
    assert not others


def canonical(name: str) -> str:
    """A package's name as pip compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


class Modules:
    """The modules of a crate, by their paths as tuples, and which of them name which others."""

    def __init__(self, source: Path) -> None:
        self.texts: dict[tuple[str, ...], str] = {}
        for file in source.rglob("*.rs"):
            path = file.relative_to(source).with_suffix("").parts
            path = path[:-1] if path[-1] in {"lib", "mod"} else path
            if path[-1:] != ("tests",):
                self.texts[path] = plain_rust(file.read_text())

    def target(self, module: tuple[str, ...], path: str) -> tuple[str, ...]:
        """The module that has what `path` names in `module`, re-exports followed."""
        head, *rest = path.split("::")
        if head in {"crate", "super"}:
            at = () if head == "crate" else module[:-1]
        else:
            at, rest = module, [head, *rest]
        for name in rest:
            if name == "super":
                at = at[:-1]
            elif (*at, name) in self.texts:
                at = (*at, name)
            else:
                exported = re.search(rf"(?:use|,) ((\w+)::(?:\w+::)*){name}\b", self.texts[at])
                if exported and (*at, exported[2]) in self.texts:
                    return self.target(at, exported[1] + name)
                return at
        return at

    def arrows(self) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
        """The siblings that each module, or one within it, names."""
        found: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for module, text in self.texts.items():
            for path in re.findall(r"\b(?:crate|super)(?:::\w+)+", text):
                target = self.target(module, path)
                pairs = enumerate(zip(module, target, strict=False), 1)
                end = next((end for end, (ours, other) in pairs if ours != other), None)
                if end:
                    found.setdefault(module[:end], set()).add(target[:end])
        return found


def plain_rust(text: str) -> str:
    """Rust without comments and unit tests, every path of a `use` written out."""
    text = re.sub(r"//.*", "", re.split(r"\n#\[cfg\(test\)\]\nmod \w+ \{", text)[0])
    group = re.compile(r"((?:\w+::)+)\{([^{}]*)\}")
    while group.search(text):
        text = group.sub(written_out, text)
    return text


def written_out(use: re.Match[str]) -> str:
    """`a::{b, c}` as `a::b, a::c`."""
    return ", ".join(use[1] + name.strip() for name in use[2].split(",") if name.strip())


def one_way(arrows: dict[tuple[str, ...], set[tuple[str, ...]]]) -> None:
    """Fails, and names the circle, where arrows lead back to where they began."""
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join("/".join(module) for module in error.args[1]))


@pytest.mark.parametrize("crate", sorted(path.parent.name for path in ROOT.glob("crates/*/src")))
def test_the_modules_of_a_crate_depend_one_way(crate):
    one_way(Modules(ROOT / "crates" / crate / "src").arrows())


@pytest.mark.parametrize("package", ["weir", "studies"])
def test_the_parts_of_each_folder_depend_one_way(package):
    """A folder within it stands for all that it has."""
    files = {path.relative_to(ROOT).with_suffix("").parts: path for path in tracked(".py")}
    files = {name: path for name, path in files.items() if name[0] == package}
    arrows: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for name, path in files.items():
        if name[-1] == "__init__":
            continue
        for dotted in imported(path):
            parts = tuple(dotted.split("."))
            target = next((parts[:k] for k in range(len(parts), 0, -1) if parts[:k] in files), ())
            pairs = enumerate(zip(name, target, strict=False), 1)
            end = next((end for end, (ours, other) in pairs if ours != other), None)
            if end:
                arrows.setdefault(name[:end], set()).add(target[:end])
    assert len(arrows) > 20
    one_way(arrows)
