"""Programs for the kernel's BPF machine: compiled by clang, loaded by libbpf.

Each is a `NAME.bpf.c` in the package that uses it, compiled when it is wanted (0.1 s).
"""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

from weir.errors import Unsupported

_DEBIAN_PACKAGES = "clang libbpf1"
_POINTER, _NUMBER, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_FUNCTIONS = (
    ("bpf_object__open_file", _POINTER, [_TEXT, _POINTER]),
    ("bpf_object__find_map_by_name", _POINTER, [_POINTER, _TEXT]),
    ("bpf_object__find_program_by_name", _POINTER, [_POINTER, _TEXT]),
    ("bpf_map__set_map_flags", _NUMBER, [_POINTER, ctypes.c_uint32]),
    ("bpf_object__load", _NUMBER, [_POINTER]),
    ("bpf_map__fd", _NUMBER, [_POINTER]),
    ("bpf_program__fd", _NUMBER, [_POINTER]),
    ("bpf_map__attach_struct_ops", _POINTER, [_POINTER]),
    ("bpf_link__fd", _NUMBER, [_POINTER]),
    ("bpf_link__disconnect", None, [_POINTER]),
    ("bpf_link__destroy", _NUMBER, [_POINTER]),
    ("bpf_link_create", _NUMBER, [_NUMBER, _NUMBER, _NUMBER, _POINTER]),
    ("bpf_object__close", None, [_POINTER]),
    ("bpf_tc_hook_create", _NUMBER, [_POINTER]),
    ("bpf_tc_attach", _NUMBER, [_POINTER, _POINTER]),
    ("bpf_tc_detach", _NUMBER, [_POINTER, _POINTER]),
)


def compiler() -> str:
    """The path of clang.

    Raises:
        Unsupported: it is not installed.
    """
    clang = shutil.which("clang")
    if not clang:
        raise Unsupported(f"clang is not installed (apt-get install {_DEBIAN_PACKAGES})")
    return clang


def compiled(source: Path, folder: Path, **definitions: str) -> Path:
    """The program of a source as the kernel wants it, as a file in a folder.

    Raises:
        Unsupported: it cannot be compiled here.
    """
    program = folder / "program.o"
    argv = [compiler(), "-O2", "-g", "-target", "bpf", "-c", str(source), "-o", str(program)]
    argv += [f"-D{name}={value}" for name, value in definitions.items()]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unsupported(f"clang: {done.stderr.strip()}")
    return program


def opened(bpf: ctypes.CDLL, program: Path) -> int:
    """A program as libbpf knows it, before the kernel does; it is to be closed.

    Raises:
        Unsupported: it cannot be read.
    """
    found: int | None = bpf.bpf_object__open_file(str(program).encode(), None)
    if not found:
        raise Unsupported(f"libbpf does not read it: {os.strerror(ctypes.get_errno())}")
    return found


def check(result: int, doing: str) -> None:
    """Unsupported if a function of libbpf returned an error."""
    if result < 0:
        hint = " (root is needed)" if result == -1 else ""
        raise Unsupported(f"{doing}: {os.strerror(-result)}{hint}")


def library() -> ctypes.CDLL:
    """libbpf, whose functions return an errno below zero, or none.

    Raises:
        Unsupported: it is not installed.
    """
    try:
        bpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise Unsupported(
            f"libbpf.so.1 is not installed (apt-get install {_DEBIAN_PACKAGES})"
        ) from None
    for name, result, arguments in _FUNCTIONS:
        function = getattr(bpf, name)
        function.restype, function.argtypes = result, arguments
    bpf.libbpf_set_print(None)  # what it would say on standard error is in the errors
    return bpf
