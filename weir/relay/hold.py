"""The kernel's acknowledgements to a relay's clients, held back until their servers have given one.

`hold.bpf.c`, beside this file, is attached to every interface that this host has, and knows the
connections of one relay by their mark. It outlives a relay that is killed, so that what the kernel
says of that one's connections later is held, too. The next relay on the same port replaces it; it
is taken back when one ends in order, and by `clear`.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from weir import bpf as kernel
from weir.errors import BadInput, Unsupported
from weir.run_folder import run_folder

_SOURCE = Path(__file__).with_name("hold.bpf.c")
_HELD, _RELEASING = 0x5745_0000, 0x5746_0000
"""Marks, and in their lower half the port; a packet's mark says whose it is (SO_MARK)."""
_EGRESS, _REPLACE = 2, 1  # from libbpf.h
_FIRST = 1  # among the filters of an interface
_CLAIMS = ".relays"  # no name of a lab, whose folders lie beside it


class _Hook(ctypes.Structure):
    """struct bpf_tc_hook."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("interface", ctypes.c_int),
        ("point", ctypes.c_uint),
        ("parent", ctypes.c_uint32),
    )


class _Filter(ctypes.Structure):
    """struct bpf_tc_opts."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("program", ctypes.c_int),
        ("flags", ctypes.c_uint32),
        ("program_id", ctypes.c_uint32),
        ("handle", ctypes.c_uint32),
        ("priority", ctypes.c_uint32),
    )


@contextlib.contextmanager
def held(port: int) -> Iterator[tuple[int, int, int, int]]:
    """Holds acknowledgements of the connections of a relay until the block is left.

    Args:
        port: where it listens; 0: somewhere.

    Yields:
        The descriptors of the maps of connections that pass, and of those that are kept; the mark
        of connections, and the mark of what releases.

    Raises:
        BadInput: another relay that runs holds those of that port.
        Unsupported: this host cannot do it: no root, no clang, no BPF.
    """
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory(prefix="weir-hold-") as temp:
        slot = stack.enter_context(_claimed(port))
        try:
            marks = (_HELD | slot, _RELEASING | slot)
            program = kernel.compiled(
                _SOURCE, Path(temp), HELD=f"{marks[0]}U", RELEASING=f"{marks[1]}U"
            )
            bpf = kernel.library()
            loaded = kernel.opened(bpf, program)
            stack.callback(bpf.bpf_object__close, loaded)
            kernel.check(bpf.bpf_object__load(loaded), "bpf(2)")
            stack.callback(_detach, bpf, slot)
            _attach(bpf, slot, bpf.bpf_program__fd(_found(bpf, loaded, "program", "hold")))
            passing, kept = (
                bpf.bpf_map__fd(_found(bpf, loaded, "map", name)) for name in ("passing", "kept")
            )
        except Unsupported as error:
            raise Unsupported(f"acknowledgements cannot be held here: {error}") from None
        yield passing, kept, *marks


def lacking() -> str | None:
    """What acknowledgements cannot be held here without; None if nothing is known to be missing."""
    try:
        kernel.compiler()
        kernel.library()
    except Unsupported as error:
        return str(error)
    return None if os.geteuid() == 0 else "root is needed"


def clear(port: int) -> None:
    """Takes back what a relay that was killed has left.

    Raises:
        BadInput: one that runs holds acknowledgements of that port.
        Unsupported: this host cannot.
    """
    with _claimed(port) as slot:
        _detach(kernel.library(), slot)


@contextlib.contextmanager
def _claimed(port: int) -> Iterator[int]:
    """What tells this relay's marks from others' in this network namespace, ours until then."""
    folder = run_folder() / _CLAIMS
    folder.mkdir(mode=0o700, exist_ok=True)
    here = Path("/proc/thread-self/ns/net").stat().st_ino
    while True:
        slot = port or secrets.randbelow(65_535) + 1
        path = folder / f"{here}-{slot}"
        lock = _locked(path)
        if lock is not None:
            break
        if port:
            raise BadInput(f"another relay holds acknowledgements of port {port} here")
    try:
        yield slot
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def _locked(path: Path) -> int | None:
    """A lock on a file that is there, as long as its descriptor is open; None: it is another's.

    The kernel lets go of it, however its process dies. Only whoever may write in the folder, which
    is the relay's user alone, can take it.
    """
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(lock, path):
                return lock
        except BlockingIOError:
            os.close(lock)
            return None
        os.close(lock)  # Whoever had it has just removed it.


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _found(bpf: ctypes.CDLL, loaded: int, kind: str, name: str) -> int:
    found: int | None = getattr(bpf, f"bpf_object__find_{kind}_by_name")(loaded, name.encode())
    if not found:
        raise Unsupported(f"there is no {kind} {name} in it")
    return found


def _attach(bpf: ctypes.CDLL, slot: int, program: int) -> None:
    for index, name in socket.if_nameindex():
        hook = _hook(index)
        made = bpf.bpf_tc_hook_create(ctypes.byref(hook))
        if made != -errno.EEXIST:
            kernel.check(made, f"{name}: clsact")
        wanted = _filter(slot)
        wanted.program, wanted.flags = program, _REPLACE
        attached = bpf.bpf_tc_attach(ctypes.byref(hook), ctypes.byref(wanted))
        kernel.check(attached, f"{name}: a filter")


def _detach(bpf: ctypes.CDLL, slot: int) -> None:
    """From all interfaces; from where it is not there is nothing to take."""
    for index, _ in socket.if_nameindex():
        hook, ours = _hook(index), _filter(slot)
        bpf.bpf_tc_detach(ctypes.byref(hook), ctypes.byref(ours))


def _hook(interface: int) -> _Hook:
    return _Hook(size=ctypes.sizeof(_Hook), interface=interface, point=_EGRESS)


def _filter(slot: int) -> _Filter:
    return _Filter(size=ctypes.sizeof(_Filter), handle=slot, priority=_FIRST)
