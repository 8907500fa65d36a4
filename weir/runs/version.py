"""What tells apart two versions of the code that computes a point.

It is a digest of the sources of the Rust core, which the core was built with, and of the Python
module of the point's function and all modules of its package and of Weir that it imports, found
without running them. So a change to anything that a result can come from makes it new, a change
elsewhere (another row, the command line) does not, and every machine with the same sources says the
same.
"""

import ast
import hashlib
import importlib.util
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path

from weir import _core

_OURS = "weir"
# Rows import it beside what they compute with, and it changes no result.
_PICTURES = "weir.chart.charts"


@cache
def code_version(module: str) -> str:
    """The version of everything that the functions of `module` can use."""
    digest = hashlib.blake2b(_core.__source__.encode(), digest_size=8)
    seen, new = set[str](), {module}
    while new:
        name = new.pop()
        seen.add(name)
        new |= {found for found in _imports(name) if found not in seen}
    for name in sorted(seen):
        digest.update(f"{name}\n".encode() + _source(name))
    return digest.hexdigest()


@cache
def _imports(module: str) -> frozenset[str]:
    """The modules of the same top package, and of Weir, that a module imports."""
    tops = {_top(module), _OURS}
    named = {name for node in ast.walk(ast.parse(_source(module))) for name in _named(node, tops)}
    named.discard(_PICTURES)
    return frozenset(name for name in named if _path(name))


def _named(node: ast.AST, tops: Container[str]) -> Iterator[str]:
    """The modules of the packages `tops` that a statement may import."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if _top(alias.name) in tops)
    elif (
        isinstance(node, ast.ImportFrom)
        and node.module
        and node.level == 0
        and _top(node.module) in tops
    ):
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        # `from package import module` uses the module; anything else may be in the package itself.
        modules = [name for name in inner if _path(name)]
        yield from modules if len(modules) == len(inner) else [node.module, *modules]


def _top(module: str) -> str:
    return module.split(".", 1)[0]


@cache
def _path(module: str) -> Path | None:
    """The source file of a module; none if there is no such module or it is compiled.

    It is looked for below its top package: to be asked for it, Python would run what is above it.
    """
    top, *below = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        return None
    if not below:
        places = [Path(spec.origin or "")]
    elif spec.submodule_search_locations:
        place = Path(spec.submodule_search_locations[0], *below)
        places = [place / "__init__.py", place.with_name(f"{below[-1]}.py")]
    else:
        return None
    return next((one for one in places if one.suffix == ".py" and one.is_file()), None)


@cache
def _source(module: str) -> bytes:
    path = _path(module)
    return path.read_bytes() if path else b""
