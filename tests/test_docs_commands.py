"""The commands of the documentation: each is one that exists, and the quick ones run.

A page's shell blocks are run in order in one folder that looks like the checkout. What needs a
second host, a file of the reader's, or more than seconds is only parsed; the rules are below.
"""

import contextlib
import importlib.util
import io
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rig import free_port, lab_lacks

from benches.harness import available
from studies.reproduction.catalogue import find
from weir.cli import COMMANDS, build_parser, plugins
from weir.cli.parser import Parser
from weir.errors import BadInput
from weir.lab import load

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = {"sh", "console", "bash"}
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:weir|make|python|cargo) [^`]+)`")
PROGRAMS = {"weir", "make", "python", "cargo"}

# What takes seconds at most, by how it begins; `lab run` takes as long as its traffic does.
LONGEST_S = 10
QUICK = (
    *("mkdir", "export", "weir keys", "weir serve", "weir send", "weir get", "weir verify"),
    *("weir lab", "weir sim", "weir compare", "weir migrate plan", "weir ops show"),
)
ANOTHER_HOST = re.compile(r"\b(?:dtn\d|host|HOST):|\b10\.\d+\.|\[::\]")
# `FILE` and the like; names of hosts such as S1 have digits, options are told apart by their dash.
OF_THE_READER = re.compile(r"(?<![\w$/-])[A-Z]{2,}(?![\w=])")
ENDINGS = (".toml", ".npz", ".h5", ".json")
IN_A_LAB = re.compile(r"weir lab\b")


def unfold(text):
    """The block's lines without prompts and indentation; a line that ends with `\\` goes on."""
    for line in text.replace("\\\n", " ").splitlines():
        yield line.strip().removeprefix("$ ")


def blocks(page):
    """The language and the lines of each fenced block."""
    for _, language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        is_typed = language != "console"
        kept = [line for line in text.splitlines() if is_typed or line.lstrip().startswith("$ ")]
        yield language, [line for line in unfold("\n".join(kept)) if line]


def shell_lines(page):
    return [line for language, lines in blocks(page) if language in SHELL for line in lines]


def simple_commands(line):
    """The words of each command of a line, without redirections; comments are left out."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words, skip = [], False
    for word in lexer:
        if word in {"|", "||", "&&", "&", ";", "(", ")"}:
            yield words
            words = []
        elif set(word) <= set("<>&"):
            skip = True
        elif skip:
            skip = False
        elif words or not re.match(r"[A-Z_]+=", word):
            words.append(word)
    yield words


def commands(line):
    return [words for words in simple_commands(line) if words and words[0] in PROGRAMS]


def told(page):
    """Every command of the page, of blocks and of running text, and whether it is whole."""
    for line in shell_lines(page):
        for words in commands(line):
            yield words, True
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for span in INLINE.findall(re.sub(r"\s+", " ", text)):
        words = span.replace("…", " ").replace("'", "").split()
        yield words, False


@pytest.fixture
def refusing(monkeypatch):
    """Parsers that raise what they would print."""

    def refuse(_parser, message):
        raise ValueError(message)

    monkeypatch.setattr(Parser, "error", refuse)


def reached(words):
    """The parser that the first of `words` lead to, and the words behind them."""
    parser, rest = build_parser(words[0]), list(words)
    while subs := [one.choices for one in parser._actions if isinstance(one.choices, dict)]:
        if not rest or rest[0].startswith("-"):
            break
        if rest[0] not in subs[0]:
            raise ValueError(f"there is no {rest[0]!r}")
        parser = subs[0][rest.pop(0)]
    return parser, rest


def check_weir(words, is_whole):
    """Refuses what the command line would refuse; of running text the names alone."""
    if not words or words[0].startswith("-"):
        return
    if words[0] not in {*COMMANDS, *plugins.found("weir.commands")}:
        raise ValueError(f"there is no weir {words[0]}")
    parser, rest = reached(words)
    for word in rest:
        if word == "--":
            break
        if re.match(r"--\w", word) and word.partition("=")[0] not in parser._option_string_actions:
            raise ValueError(f"unknown option {word}")
    if words[0] == "reproduce":
        find([word for word in rest if re.match(r"00[0-4]-", word)])
    if is_whole:
        with contextlib.redirect_stderr(io.StringIO()):
            build_parser(words[0]).parse_args(words)


def check_make(words, _is_whole):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for word in words:
        name, equals, value = word.partition("=")
        if name == "ID" and value != "...":
            find([value])
        if not equals and name not in targets:
            raise ValueError(f"no target {name}")
        if name == "NAME" and value not in available():
            raise ValueError(f"no benchmark {value}")


def check_python(words, _is_whole):
    if words[0] != "-m":
        if not (ROOT / words[0]).is_file():
            raise ValueError(f"no file {words[0]}")
        return
    module, names = words[1], words[2:]
    if importlib.util.find_spec(module) is None:
        raise ValueError(f"no module {module}")
    for name in names if module == "benches" else ():
        if name not in available():
            raise ValueError(f"no benchmark {name}")


def check_cargo(words, _is_whole):
    pairs = dict(itertools.pairwise(words))
    if "-p" not in pairs:
        return
    crate = ROOT / "crates" / pairs["-p"].removeprefix("weir-")
    if not (crate / "Cargo.toml").is_file():
        raise ValueError(f"no crate {pairs['-p']}")
    folders = {"--test": "tests", "--bench": "benches", "--example": "examples"}
    for option, folder in folders.items():
        name = pairs.get(option)
        places = [crate / folder / f"{name}.rs", crate / folder / str(name) / "main.rs"]
        if name and not any(place.is_file() for place in places):
            raise ValueError(f"no {option} {name}")


CHECKS = {"weir": check_weir, "make": check_make, "python": check_python, "cargo": check_cargo}


def refused(words, is_whole):
    """Why a command cannot be, None if it can."""
    try:
        CHECKS[words[0]](words[1:], is_whole)
    except (ValueError, BadInput, SystemExit) as error:
        return f"{shlex.join(words)}: {error}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_exists(page, refusing):
    found = {(tuple(words), is_whole) for words, is_whole in told(page)}
    assert [why for one in sorted(found) if (why := refused(*one))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_stand_in_shell_blocks(page):
    # Otherwise nothing here would try them.
    bare = [line for language, lines in blocks(page) if not language for line in lines]
    indented = re.findall(r"\n\n {4}((?:weir|make|python) .*)", page.read_text())
    typed = [line for line in bare if re.match(r"(weir|make|python|cargo) [\w./-]+( |$)", line)]
    assert typed + indented == []


def tracked_folders():
    listed = ["git", "ls-files", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name.partition("/")[0] for name in names.rstrip("\0").split("\0") if "/" in name}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_the_checkout_that_commands_name_exist(page):
    folders = tracked_folders()
    named = {word for words, _ in told(page) for word in words if word.partition("/")[0] in folders}
    paths = [word for word in named if "/" in word and not (ROOT / word).exists()]
    assert paths == []


def made(line):
    """The names of what a line leaves behind for later ones."""
    return re.findall(r">\s*(\S+)", line)


def traffic_s(scenario):
    """When the last traffic of a scenario file stops."""
    return max(flow.stop.ns / 1e9 for flow in load(scenario).traffic if flow.stop)


def why_not(line, there):
    """Why a line is only parsed, None if it is run; `there` are files that earlier ones made."""
    words = shlex.split(line, comments=True)
    if not any(shlex.join(words).startswith(start) for start in QUICK):
        return "takes longer than a test may"
    if "-- weir calendar" in line:
        return "needs a calendar; tests/control/test_control_page.py has one"
    if ANOTHER_HOST.search(line):
        return "needs another host"
    if OF_THE_READER.search(shlex.join(word for word in words if "'" not in word)):
        return "names something of the reader's"
    if IN_A_LAB.match(line) and lab_lacks():
        return "needs a lab"
    if words[:3] == ["weir", "lab", "run"] and traffic_s(ROOT / words[3]) > LONGEST_S:
        return "takes longer than a test may"
    files = [word for word in words if word.endswith(ENDINGS) and word not in made(line)]
    missing = [name for name in files if name not in there and not (ROOT / name).exists()]
    return f"{missing[0]} is the reader's" if missing else None


def script(page):
    """The page's quick commands, in order, as one script."""
    there = set()
    for line in shell_lines(page):
        if why_not(line, there) is None:
            there.update(made(line))
            yield line


# A server is ready when it says so.
READY = "until grep -q listening serving; do sleep 0.05; done"
# So is one of iperf3, which waits for its reader to fill a buffer before it says so.
IPERF_SERVER = re.compile(r"(weir lab exec \S+ -- )iperf3 -s\b")


def script_text(page):
    """The script for bash; what the page does in another terminal goes on in the background."""
    lines = ["set -ex", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for line in script(page):
        typed = re.sub(r"\s+#.*", "", line)
        if typed.startswith("weir serve"):
            lines += [f"{typed.removesuffix('&')} >serving &", f"timeout 60 bash -c '{READY}'"]
        else:
            lines.append(typed + (" &" if "another terminal" in line else ""))
        if server := IPERF_SERVER.match(typed):
            listens = f"{server[1]}ss -Hltn sport = :5201"
            lines.append(f"timeout 60 bash -c 'until {listens} | grep -q .; do sleep 0.1; done'")
    return "\n".join(lines)


WITH_QUICK_ONES = [page for page in PAGES if list(script(page))]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder with the checkout's content, in which what commands write harms nothing."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for one in ROOT.iterdir():
        if one.is_file():
            shutil.copy(one, folder)
        elif one.name not in {".git", "out", "target"}:
            (folder / one.name).symlink_to(one)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "WEIR_CALENDAR_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    yield folder
    subprocess.run(["weir", "lab", "down"], capture_output=True, check=False)
    left = [one for one in tmp_path.glob("run/*") if one.is_dir()]
    assert left == [], "a lab was left"


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("page", WITH_QUICK_ONES, ids=lambda page: page.name)
def test_the_quick_commands_of_a_page_run(page, checkout):
    text = script_text(page).replace(":7411", f":{free_port()}")
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=checkout,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def test_the_first_steps_are_among_those_that_run():
    assert {"README.md", "lab.md", "migration.md", "packet.md"} <= {p.name for p in WITH_QUICK_ONES}
    lines = list(script(ROOT / "README.md"))
    assert sum(line.startswith("weir ") for line in lines) >= 10


@pytest.mark.parametrize(
    "typed",
    [
        *("weir nonsense", "weir send --nonsense", "weir lab upp wan", "make nonsense"),
        *(
            "make bench NAME=nonsense",
            "weir reproduce 001-fig-0.0",
            "make reproduce ID=001-fig-0.0",
        ),
        *("python -m weir.nonsense", "python tests/nonsense.py"),
        *("cargo test -p weir-nonsense", "cargo bench -p weir-tcp --bench nonsense"),
    ],
)
def test_what_does_not_exist_is_refused(typed, refusing):
    assert refused(typed.split(), False) is not None


def test_what_counts_as_a_command():
    line = "A=1 weir sim x.toml --json > y.json && weir compare y.json z.json  # beside"
    assert commands(line) == [
        ["weir", "sim", "x.toml", "--json"],
        ["weir", "compare", "y.json", "z.json"],
    ]
    assert why_not("weir send a dtn7:7411/a", set()) == "needs another host"
    assert why_not("weir sim FILE --json", set()) == "names something of the reader's"
    assert why_not("weir compare none.json other.json", set()) == "none.json is the reader's"
    assert why_not("weir compare none.json other.json", {"none.json", "other.json"}) is None
