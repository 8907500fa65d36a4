"""A disk in memory with an oddity that some file systems have: `odd_disk.py PLACE ODDITY`.

`spellings`: names are kept as they came, and found by any spelling of their accented letters, as
on ZFS with `normalization`. `ends`: dots and blanks at the end of a name are left out, as on FAT.
`uncounted`: no file says how many names it has. `damaged`: what is beyond the first two megabytes
of a file cannot be read. `modeless`, `timeless`, `bare`: permissions, times or neither can be set,
as on FAT, exFAT or CIFS where another user mounted it.
"""

import errno
import struct
import sys
import unicodedata

from late_disk import CREATE, LOOKUP, READ, RENAME, RENAME2, SETATTR, UNLINK, Disk, serve

KEPT = 10**9
READABLE = 2 * 10**6
LINKS_AT = 64
"""Where the number of names stands in the attributes of a file."""
REFUSED = {"modeless": 1, "timeless": 32, "bare": 1 | 32}
"""What cannot be set: FATTR_MODE, FATTR_MTIME."""


class OddDisk(Disk):
    def __init__(self, oddity):
        super().__init__(KEPT)
        self.oddity = oddity

    def attributes(self, number):
        told = bytearray(super().attributes(number))
        if self.oddity == "uncounted":
            struct.pack_into("<I", told, LINKS_AT, 0)
        return bytes(told)

    def answer(self, code, number, body):
        if self.oddity in ("spellings", "ends"):
            body = self.respelled(code, number, body)
        if code == SETATTR and struct.unpack_from("<I", body)[0] & REFUSED.get(self.oddity, 0):
            raise OSError(errno.EPERM, "")
        if self.oddity == "damaged" and code == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            if offset + size > READABLE:
                raise OSError(errno.EIO, "")
        return super().answer(code, number, body)

    def respelled(self, code, number, body):
        """A request with names as they are kept."""
        heads = {LOOKUP: 0, UNLINK: 0, CREATE: 16, RENAME: 8, RENAME2: 16}
        if code not in heads:
            return body
        head, names = body[: heads[code]], body[heads[code] :].split(b"\0")
        places = [number]
        if code in (RENAME, RENAME2):
            places += struct.unpack_from("<Q", head)
        for index, place in enumerate(places):
            names[index] = self.kept(self.nodes[place], names[index])
        return head + b"\0".join(names)

    def kept(self, directory, name):
        if self.oddity == "ends":
            return name.rstrip(b". ")
        alike = (one for one in directory.names if normal(one) == normal(name))
        return next(alike, name)


def normal(name):
    return unicodedata.normalize("NFC", name.decode(errors="surrogateescape"))


if __name__ == "__main__":
    serve(OddDisk(sys.argv[2]), sys.argv[1])
