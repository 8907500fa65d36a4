"""Every test can fail: it asserts something, or its name says that not to panic is all it asks."""

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SAYS_SO = re.compile(r"_(do|does)_not_panic")
# Calls that fail by themselves: what waits with a bound, and what expects an error.
FAILING = {"raises", "warns", "fail", "until", "until_async", "poll"}
RUST_FUNCTION = re.compile(r"^( *)(?:pub(?:\([a-z]+\))? )?fn (\w+)", re.MULTILINE)
RUST_ASSERTION = re.compile(r"assert|panic!|unwrap_err|unreachable!|should_panic")
RUST_CALL = re.compile(r"(\w+)(?:::<[^>]*>)?\(")


def tracked(pattern: str) -> list[Path]:
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in names.splitlines() if (path := ROOT / name).is_file()]


def not_yet(called: set[str], seen: set[str]) -> Iterator[str]:
    """Those that nobody has looked at yet: each function once, however many ways lead to it."""
    for name in sorted(called):
        if name not in seen:
            seen.add(name)
            yield name


def python_without(source: str) -> list[str]:
    """The tests of a file that neither assert nor call what does, in it or by its name."""
    functions = {x.name: x for x in ast.walk(ast.parse(source)) if isinstance(x, ast.FunctionDef)}

    def asserts(name: str, seen: set[str]) -> bool:
        nodes = list(ast.walk(functions[name]))
        called = {ast.unparse(x.func).split(".")[-1] for x in nodes if isinstance(x, ast.Call)}
        if any(isinstance(x, ast.Assert) for x in nodes) or called & FAILING:
            return True
        if any(re.match("assert|expect|check", one) for one in called):
            return True
        return any(asserts(x, seen) for x in not_yet(called & functions.keys(), seen))

    tests = [name for name in functions if name.startswith("test_")]
    return [x for x in tests if not asserts(x, {x}) and not SAYS_SO.search(x)]


def rust_without(sources: list[str]) -> list[str]:
    """The same of one crate, with all functions of its files."""
    bodies, tests = defaultdict(list), []
    for source in sources:
        for found in RUST_FUNCTION.finditer(source):
            end = re.search(rf"^{found[1]}}}", source[found.end() :], re.MULTILINE)
            body = source[found.end() :][: end.end()] if end else ""
            before = source[: found.start()].rstrip().split("\n")
            attributes = ""
            while before and before[-1].strip().startswith(("#", "//")):
                attributes += before.pop()
            if "#[test]" in attributes:
                tests.append((found[2], attributes + body))
            bodies[found[2]].append(body)

    def asserts(body: str, seen: set[str]) -> bool:
        if RUST_ASSERTION.search(body):
            return True
        called = not_yet(set(RUST_CALL.findall(body)), seen)
        return any(asserts(one, seen) for name in called for one in bodies.get(name, []))

    return sorted({name for name, body in tests if not asserts(body, {name})})


def test_every_python_test_asserts_or_says_that_it_does_not():
    found = {path.name: python_without(path.read_text()) for path in tracked("tests/**/test_*.py")}
    assert not {name: tests for name, tests in found.items() if tests}


def test_every_rust_test_asserts_or_says_that_it_does_not():
    crates = defaultdict(list)
    for path in tracked("crates/**/*.rs"):
        crates[path.relative_to(ROOT).parts[1]].append(path.read_text())
    found = {crate: rust_without(sources) for crate, sources in crates.items()}
    assert not [x for tests in found.values() for x in tests if not SAYS_SO.search(x)]


def test_the_scans_find_what_they_look_for():
    assert python_without("def test_a():\n    f()\ndef f():\n    pass\n") == ["test_a"]
    assert not python_without("def test_a():\n    f()\ndef f():\n    assert x\n")
    assert rust_without(["#[test]\nfn a() {\n    f();\n}\n\nfn f() {\n}\n"]) == ["a"]
    assert not rust_without(["#[test]\nfn a() {\n    f();\n}\n\nfn f() {\n    assert!(x);\n}\n"])
    assert not rust_without(["#[test]\n#[should_panic]\nfn a() {\n    f();\n}\n"])
