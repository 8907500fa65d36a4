"""Packages that only some commands need: an extra of the distribution brings them."""

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from weir.errors import Unsupported

REMEDY = (
    'scripts/setup reproduce in a checkout, pip install "weir-net[observe,reproduce,sdn]" elsewhere'
)
"""What installs them all."""

# What is imported by another name than it is installed by.
_PACKAGES = {"os_ken": "os-ken", "sklearn": "scikit-learn", "Xlib": "python-xlib"}


@contextlib.contextmanager
def named() -> Iterator[None]:
    """Names a package that an import within it does not find, and says what installs it.

    Raises:
        Unsupported: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").split(".")[0]
        if name in {"", "weir", "studies"}:
            raise
        package = _PACKAGES.get(name, name)
        raise Unsupported(f"this needs the Python package {package}: {REMEDY}") from None


def load(module: str) -> Any:
    """A module of such a package.

    Raises:
        Unsupported: it is not installed.
    """
    with named():
        return importlib.import_module(module)
