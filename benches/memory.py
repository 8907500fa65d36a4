"""Memory that stays warm: what one run frees, the next gets back without a fault below it.

A virtual machine with free page reporting hands freed memory back to its host within a second,
in blocks of 2 MiB, and a page that comes back costs a fault in the hypervisor: writing 1 GiB to a
tmpfs took 0.45 s of processor time warm and 1.45 s cold, so that a mover paid for whatever had
happened before it. Memory without a free block of 2 MiB is never handed back.
"""

import contextlib
import mmap
from collections.abc import Iterator

_MADV_POPULATE_WRITE = 23
_PIN_EVERY = 1 << 20


@contextlib.contextmanager
def warm_memory(size: int) -> Iterator[None]:
    """Takes `size` bytes from the system and gives back all but a page in each MiB.

    The kernel serves small requests from the smallest free blocks, so from here first.
    """
    size -= size % _PIN_EVERY
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        block.madvise(mmap.MADV_NOHUGEPAGE)
        block.madvise(_MADV_POPULATE_WRITE)
        for offset in range(0, size, _PIN_EVERY):
            free = offset + mmap.PAGESIZE
            block.madvise(mmap.MADV_DONTNEED, free, _PIN_EVERY - mmap.PAGESIZE)
        yield
