"""libibumad as ports answer it, at once and by hand."""

import ctypes
import itertools

from weir.observe.infiniband import mad

HEAD = 64
"""Bytes before a datagram, as libibumad has them."""


class Answering:
    """libibumad on a port of a fabric where everybody answers what `answer` has."""

    def __init__(self):
        self.told, self.replies = set(), []
        self._next = itertools.count()

    def answer(self, datagram):
        """Makes a query its answer; False where none comes."""
        datagram[3] = mad.RESPONSE
        return True

    def umad_init(self):
        return 0

    def umad_size(self):
        return HEAD

    def umad_open_port(self, device, port):
        return 1

    def umad_close_port(self, port):
        return 0

    def umad_get_port(self, device, port, about):
        ctypes.memmove(ctypes.byref(about, 32), (7).to_bytes(4, "little"), 4)
        return 0

    def umad_release_port(self, about):
        return 0

    def umad_register(self, port, kind, version, rmpp, methods):
        agent = next(self._next)
        if methods is not None:
            self.told.add(agent)
        return agent

    def umad_unregister(self, port, agent):
        self.told.discard(agent)
        return 0

    def umad_send(self, port, agent, buffer, length, timeout, retries):
        datagram = bytearray(buffer.raw[HEAD:])
        if datagram[3] != mad.REPORT_RESPONSE:
            is_answered = self.answer(datagram)
            # What is given up comes back as it was sent, with a status of the kernel's.
            self.replies.append((agent, bytes(datagram), 0 if is_answered else 110))
        return 0

    def umad_status(self, buffer):
        return int.from_bytes(buffer.raw[:4], "little")

    def umad_recv(self, port, buffer, length, patience):
        if not self.replies:
            return -1
        agent, datagram, status = self.replies.pop(0)
        ctypes.memmove(buffer, status.to_bytes(4, "little"), 4)
        ctypes.memmove(ctypes.byref(buffer, HEAD), datagram, mad.SIZE)
        return agent
