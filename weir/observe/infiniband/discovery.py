"""Which switches there are, asked once and kept: `ibnetdiscover` walks the whole fabric."""

import os
import shutil
import subprocess
from pathlib import Path

from weir import files
from weir.errors import BadInput, Unavailable, Unsupported
from weir.observe.infiniband import dump
from weir.observe.infiniband.dump import Fabric
from weir.printable import printable

DEBIAN_PACKAGE = "infiniband-diags"
_LIMIT_S = 120


def program() -> str | None:
    """Where `ibnetdiscover` is; None if it is not installed."""
    # Administrators' programs are not on everybody's PATH.
    return shutil.which("ibnetdiscover", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def discovered(kept: Path | None = None, *, again: bool = False) -> Fabric:
    """The fabric, from the file in which it is kept, or from a walk that is then kept there.

    Args:
        kept: the file; None keeps nothing.
        again: whether to walk although the file is there.

    Raises:
        Unsupported: the program for the walk is not installed.
        Unavailable: it found nothing.
        BadInput: the file cannot be read or written, or holds no dump.
    """
    if kept and kept.exists() and not again:
        return dump.load(kept)
    text = _walked()
    fabric = dump.parse(text, "what ibnetdiscover printed")
    if kept:
        try:
            with files.whole(kept) as fresh:
                fresh.write_text(text, encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{kept}: {error.strerror}") from None
    return fabric


def _walked() -> str:
    walker = program()
    if walker is None:
        raise Unsupported(f"ibnetdiscover is not installed (apt-get install {DEBIAN_PACKAGE})")
    try:
        done = subprocess.run(
            [walker], capture_output=True, text=True, errors="replace", check=False,
            timeout=_LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Unavailable(f"ibnetdiscover did not end within {_LIMIT_S} s") from None
    if done.returncode or not done.stdout.strip():
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Unavailable(f"ibnetdiscover: {printable(said)}")
    return done.stdout
