"""The remote framebuffer protocol (RFC 6143), from the screen's side: as VNC's viewers speak it.

With Tight's encoding without JPEG, whose pictures are exact, and with continuous updates and fences
where the server has them, as TigerVNC does.
"""

import socket
import struct
import zlib
from collections.abc import Callable
from typing import BinaryIO, cast

import numpy as np

from studies.rig.desktop.pictures import Pixels
from weir.errors import Unavailable

_RAW, _COPY, _TIGHT = 0, 1, 7
_LAST, _FENCE, _CONTINUOUS = -224, -312, -313
_VERSION = b"RFB 003.008\n"
_NO_SECURITY = 1
# 32 bits a pixel of 24, little-endian, blue first: what an X server has, and `Pixels`.
_FORMAT = struct.pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
_FENCE_REQUEST = 1 << 31
_LEAST_PACKED = 12
"""Tight leaves shorter data as they are."""


class Screen:
    """A screen of a server's desktop.

    Args:
        connection: to the server.
        changed: is called after each rectangle, as soon as it is in `pixels`.
        is_near: whether nothing need be packed, for it comes from the same host.

    Attributes:
        pixels: what it shows.

    Raises:
        Unavailable: the server went away, or speaks otherwise.
    """

    def __init__(
        self, connection: socket.socket, changed: Callable[[], None], is_near: bool = False
    ) -> None:
        self._connection, self._changed = connection, changed
        self._from = cast(BinaryIO, connection.makefile("rb", 1 << 16))
        self._streams = [zlib.decompressobj() for _ in range(4)]
        width, height = self._greeted()
        self.pixels: Pixels = np.zeros((height, width, 4), np.uint8)
        connection.sendall(struct.pack(">B3x", 0) + _FORMAT)
        packed = () if is_near else (_TIGHT,)
        wanted = (*packed, _COPY, _RAW, _LAST, _FENCE, _CONTINUOUS)
        connection.sendall(struct.pack(f">BxH{len(wanted)}i", 2, len(wanted), *wanted))
        self._ask(is_incremental=False)
        self._is_continuous = False

    def _greeted(self) -> tuple[int, int]:
        """Both say who they are; returns width and height of the desktop."""
        version = self._read(12)
        if not version.startswith(b"RFB 003.00"):
            raise Unavailable(f"the server speaks {version!r}, not RFB 3.8")
        self._connection.sendall(_VERSION)
        kinds = self._read(self._read(1)[0])
        if _NO_SECURITY not in kinds:
            raise Unavailable("the server wants a password, which a lab's has not")
        self._connection.sendall(bytes([_NO_SECURITY]))
        (refused,) = struct.unpack(">I", self._read(4))
        if refused:
            raise Unavailable("the server refused the connection")
        self._connection.sendall(b"\1")  # others may look, too
        width, height, name = struct.unpack(">HH16xI", self._read(24))
        self._read(name)
        return width, height

    def close(self) -> None:
        """Ends the connection."""
        self._from.close()
        self._connection.close()

    def key(self, character: str) -> None:
        """Presses a key and lets it go."""
        keysym = ord(character)
        down, up = (struct.pack(">BB2xI", 4, is_down, keysym) for is_down in (1, 0))
        self._connection.sendall(down + up)

    def take(self) -> None:
        """One message of the server.

        Raises:
            Unavailable: it went away.
        """
        kind = self._read(1)[0]
        if kind == 0:
            self._update()
        elif kind == 1:
            (count,) = struct.unpack(">3xH", self._read(5))
            self._read(6 * count)
        elif kind == 3:
            (length,) = struct.unpack(">3xI", self._read(7))
            self._read(length)
        elif kind == 150:
            # The server says with it that it can: from now on it need not be asked.
            height, width = self.pixels.shape[:2]
            self._connection.sendall(struct.pack(">BBHHHH", 150, 1, 0, 0, width, height))
            self._is_continuous = True
        elif kind == 248:
            flags, length = struct.unpack(">3xIB", self._read(8))
            payload = self._read(length)
            if flags & _FENCE_REQUEST:
                answer = flags & ~_FENCE_REQUEST & 7
                self._connection.sendall(struct.pack(">B3xIB", 248, answer, length) + payload)
        elif kind != 2:
            raise Unavailable(f"the server sent a message of kind {kind}, which is not known here")

    def _ask(self, is_incremental: bool) -> None:
        height, width = self.pixels.shape[:2]
        self._connection.sendall(struct.pack(">BBHHHH", 3, is_incremental, 0, 0, width, height))

    def _update(self) -> None:
        (count,) = struct.unpack(">xH", self._read(3))
        if not self._is_continuous:
            self._ask(is_incremental=True)
        for _ in range(count):
            left, top, width, height, encoding = struct.unpack(">HHHHi", self._read(12))
            if encoding == _LAST:
                return
            area = self.pixels[top : top + height, left : left + width]
            if encoding == _RAW:
                content = np.frombuffer(self._read(4 * width * height), np.uint8)
                area[:] = content.reshape(height, width, 4)
            elif encoding == _COPY:
                from_left, from_top = struct.unpack(">HH", self._read(4))
                source = self.pixels[from_top : from_top + height, from_left : from_left + width]
                area[:] = source.copy()
            elif encoding == _TIGHT:
                self._tight(area)
            else:
                raise Unavailable(f"the server sent encoding {encoding}, which was not asked for")
            self._changed()

    def _tight(self, area: Pixels) -> None:
        control = self._read(1)[0]
        for number in range(4):
            if control >> number & 1:
                self._streams[number] = zlib.decompressobj()
        kind = control >> 4
        if kind == 8:
            area[:, :, :3] = np.frombuffer(self._read(3), np.uint8)[::-1]
            return
        if kind > 7:
            raise Unavailable("the server sent JPEG, which was not asked for")
        stream = self._streams[kind & 3]
        way = self._read(1)[0] if kind & 4 else 0
        height, width = area.shape[:2]
        if way == 0:
            content = self._unpacked(stream, 3 * width * height)
            area[:, :, :3] = content.reshape(height, width, 3)[:, :, ::-1]
        elif way == 1:
            self._palette(area, stream)
        else:
            raise Unavailable(f"the server sent Tight's filter {way}, which needs another reader")

    def _palette(self, area: Pixels, stream: "zlib._Decompress") -> None:
        height, width = area.shape[:2]
        colours = self._read(1)[0] + 1
        palette = np.frombuffer(self._read(3 * colours), np.uint8).reshape(colours, 3)[:, ::-1]
        if colours > 2:
            chosen = self._unpacked(stream, width * height).reshape(height, width)
        else:
            across = -(-width // 8)
            bits = np.unpackbits(self._unpacked(stream, across * height).reshape(height, across), 1)
            chosen = bits[:, :width]
        area[:, :, :3] = palette[chosen]

    def _unpacked(self, stream: "zlib._Decompress", length: int) -> Pixels:
        if length < _LEAST_PACKED:
            return np.frombuffer(self._read(length), np.uint8)
        packed = stream.decompress(self._read(self._compact()))
        if len(packed) != length:
            raise Unavailable(f"the server's {len(packed)} bytes should have been {length}")
        return np.frombuffer(packed, np.uint8)

    def _compact(self) -> int:
        """A length of one to three bytes, seven bits first."""
        length = 0
        for shift in (0, 7, 14):
            byte = self._read(1)[0]
            length |= (byte if shift == 14 else byte & 0x7F) << shift
            if shift < 14 and not byte & 0x80:
                break
        return length

    def _read(self, count: int) -> bytes:
        try:
            content = self._from.read(count)
        except OSError as error:
            raise Unavailable(f"the server went away: {error.strerror}") from None
        if len(content) < count:
            raise Unavailable("the server went away")
        return content
