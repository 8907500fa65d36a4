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
from collections.abc import Iterator
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
    tops = {module.split(".", 1)[0], _OURS}
    named = {name for node in ast.walk(ast.parse(_source(module))) for name in _named(node)}
    named.discard(_PICTURES)
    return frozenset(name for name in named if name.split(".", 1)[0] in tops and _path(name))


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        # `from package import module` uses the module; anything else may be in the package itself.
        modules = [name for name in inner if _path(name)]
        yield from modules if len(modules) == len(inner) else [node.module, *modules]


@cache
def _path(module: str) -> Path | None:
    """The source file of a module; none if there is no such module or it is compiled."""
    try:
        spec = importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return None
    path = Path(spec.origin) if spec and spec.origin else None
    return path if path and path.suffix == ".py" else None


@cache
def _source(module: str) -> bytes:
    path = _path(module)
    return path.read_bytes() if path else b""
