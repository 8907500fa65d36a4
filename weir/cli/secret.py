"""Secrets on a command line, which every local user could read in the process list.

The kernel shows a process's arguments out of the process's own memory. There they are overwritten
as soon as the interpreter runs; the process, its parent and its signals stay as they are.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

# Tokens, as in `--token TOKEN` and `--token=TOKEN`; and passwords, as in
# postgresql://USER:PASSWORD@HOST and postgresql://HOST/DATABASE?password=PASSWORD.
_OPTION = "--token"
_PASSWORD = rb"://[^/@\s:]*:([^@\s]+)@|[?&]password=([^&\s]+)"


def hide() -> None:
    """Overwrites the secrets among this process's arguments in what others see of it."""
    shown = [argument.encode(errors="surrogateescape") for argument in sys.orig_argv]
    if not any(_spans(shown)):
        return
    # Only where it is needed: it takes longer to load than most commands to parse.
    import ctypes

    try:
        start, end = _place()
        raw = Path("/proc/self/cmdline").read_bytes()
    except OSError:
        # Nothing is mounted there, for us at least. The C library knows where they begin.
        start = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "program_invocation_name").value or 0
        raw = b"".join(argument + b"\0" for argument in shown)
        end = start + len(raw)
        if start and ctypes.string_at(start, len(raw)) != raw:
            return
    if not start or end - start != len(raw):
        return
    for offset, length in _spans(raw.split(b"\0")):
        ctypes.memset(start + offset, ord("*"), length)


def _spans(arguments: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Offset and length of each secret among arguments that stand one after the other."""
    option, offset, is_next = _OPTION.encode(), 0, False
    for argument in arguments:
        if is_next:
            yield offset, len(argument)
        elif argument.startswith(option + b"="):
            yield offset + len(option) + 1, len(argument) - len(option) - 1
        for found in re.finditer(_PASSWORD, argument) if b"://" in argument else ():
            start, end = found.span(found.lastindex or 0)
            yield offset + start, end - start
        is_next = argument == option
        offset += len(argument) + 1


def _place() -> tuple[int, int]:
    """Where the kernel reads the arguments: proc(5), fields 48 and 49 of stat."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[45]), int(fields[46])
