"""Congestion controls given to a kernel that lacks them, for as long as a lab is up.

Each is a program in `NAME.bpf.c` beside this file. It is compiled when a lab asks for it (0.1 s)
and given to the kernel by `bpf(2)` (struct_ops), under a name of its own, `NAME_` and some digits,
so that labs do not get in each other's way. The kernel forgets it when the process that holds it
ends, however it ends; connections that use it keep it until they close. There are DCTCP (RFC 8257),
which Debian's kernels have and many built for containers and virtual machines do not, and a window
of two segments, which no kernel has.
"""

import ctypes
import os
import secrets
import tempfile
from pathlib import Path

from weir import bpf as kernel
from weir.errors import Unsupported

PROVIDED = ("dctcp", "fixed2")
"""What can be had on a kernel without it."""

# From linux/bpf.h. A map of struct_ops with this flag is registered by a link, not by its contents.
_BPF_F_LINK, _BPF_STRUCT_OPS = 1 << 13, 44
_LINKS_ITSELF = (1, 2)  # the version of libbpf from which it makes the link


class Given:
    """Controls that the kernel has for as long as this object is open."""

    def __init__(self) -> None:
        self._links: list[int] = []

    def give(self, name: str) -> str:
        """Gives the kernel a control and returns what the kernel calls it.

        Raises:
            Unsupported: it cannot be compiled, or the kernel does not take it.
        """
        kernel_name = f"{name}_{secrets.token_hex(4)}"
        try:
            with tempfile.TemporaryDirectory(prefix="weir-control-") as folder:
                source = Path(__file__).with_name(f"{name}.bpf.c")
                program = kernel.compiled(source, Path(folder), NAME=f'"{kernel_name}"')
                self._links.append(_register(program))
        except Unsupported as error:
            raise Unsupported(
                f'congestion = "{name}" is not in this kernel, and cannot be given to it: {error}'
            ) from None
        return kernel_name

    def close(self) -> None:
        """Takes them back."""
        while self._links:
            os.close(self._links.pop())


def _register(program: Path) -> int:
    """The descriptor of the link by which the kernel has the program's `control`."""
    bpf = kernel.library()
    opened = kernel.opened(bpf, program)
    try:
        control = bpf.bpf_object__find_map_by_name(opened, b"control")
        kernel.check(bpf.bpf_map__set_map_flags(control, _BPF_F_LINK), "flags")
        kernel.check(bpf.bpf_object__load(opened), "bpf(2)")
        attached = bpf.bpf_map__attach_struct_ops(control)
        if not attached:
            raise Unsupported(f"the kernel does not take it: {os.strerror(ctypes.get_errno())}")
        try:
            if (bpf.libbpf_major_version(), bpf.libbpf_minor_version()) >= _LINKS_ITSELF:
                own: int = bpf.bpf_link__fd(attached)  # disconnected, it is not closed below
                return own
            link: int = bpf.bpf_link_create(bpf.bpf_map__fd(control), 0, _BPF_STRUCT_OPS, None)
            kernel.check(link, "the kernel does not take it")
            return link
        finally:
            bpf.bpf_link__disconnect(attached)
            bpf.bpf_link__destroy(attached)
    finally:
        bpf.bpf_object__close(opened)
