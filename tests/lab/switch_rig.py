"""A network with switches, and the least of an OpenFlow controller, for the tests of switches."""

import contextlib
import socket
import struct
import threading

LINE = """\
[lab]
name = "switched"
[hosts]
h1 = {}
h2 = {}
[routers]
s1 = { kind = "switch" }
s2 = { kind = "switch", datapath = 0x2a }
[[link]]
ends = ["h1", "s1"]
[[link]]
ends = ["s1", "s2"]
rate = "100 Mbit/s"
[[link]]
ends = ["s2", "h2"]
"""

CLASSES = """\
[[switches.class]]
name = "expedited"
dscp = ["AF11", 46]
rate = "60 %"
[[switches.class]]
name = "best-effort"
rate = "7 Mbit/s"
ceiling = "90 %"
[[switches.class]]
name = "lower"
dscp = ["LE"]
rate = "1 %"
"""

_HELLO, _ECHO_REQUEST, _ECHO_REPLY, _FEATURES_REQUEST, _FEATURES_REPLY = 0, 2, 3, 5, 6


class Listener:
    """Takes switches' connections, answers their echoes and asks each for its datapath."""

    def __init__(self, listening):
        self.datapaths = set()
        self._listening = listening
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                switch, _ = self._listening.accept()
                threading.Thread(target=self._talk, args=(switch,), daemon=True).start()

    def _talk(self, switch):
        with switch, switch.makefile("rb") as incoming, contextlib.suppress(OSError):
            for kind in (_HELLO, _FEATURES_REQUEST):
                switch.sendall(struct.pack("!BBHI", 4, kind, 8, 1))
            while len(head := incoming.read(8)) == 8:
                _, kind, length, number = struct.unpack("!BBHI", head)
                body = incoming.read(length - 8)
                if kind == _FEATURES_REPLY:
                    self.datapaths.add(struct.unpack("!Q", body[:8])[0])
                elif kind == _ECHO_REQUEST:
                    switch.sendall(struct.pack("!BBHI", 4, _ECHO_REPLY, length, number) + body)


@contextlib.contextmanager
def listener(family, address):
    """A listener at an address, while the context lasts; with its address."""
    with socket.socket(family) as listening:
        listening.bind(address)
        listening.listen()
        yield Listener(listening), listening.getsockname()
