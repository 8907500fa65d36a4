"""Environments of their own for peers that come from Python's package index."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from weir.errors import Unsupported


def python_of(name: str, version: str, before: Sequence[str] = ()) -> Path:
    """The Python of a package's environment below `out/peers`, made once.

    Args:
        name: the package.
        version: which of its releases.
        before: what has to be installed first, to build it.

    Raises:
        Unsupported: it cannot be had.
    """
    folder = Path("out/peers").resolve() / f"{name}-{version}"
    python, done = folder / "bin" / "python", folder / "done"
    if not done.exists():
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        steps = [[sys.executable, "-m", "venv", str(folder)]]
        steps += [[*pip, *before]] if before else []
        free = {key: value for key, value in os.environ.items() if key != "PIP_CONSTRAINT"}
        for words in (*steps, [*pip, f"{name}=={version}"]):
            if subprocess.run(words, env=free, check=False).returncode != 0:
                raise Unsupported(f"{name} {version} cannot be had from the package index")
        done.touch()
    return python
