"""A disk that tells late what it could not keep, by the kernel's interface to file systems.

As NFS or Lustre it takes all that is written, and says when a file is closed, or synced, that the
quota was exceeded; it says so once, and what it did not keep reads as zeros. `late_disk.py PLACE
LIMIT` mounts itself at PLACE, prints a line and serves; each file keeps LIMIT bytes.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
import time

PIECE = 1 << 17
# enum fuse_opcode, in <linux/fuse.h>
LOOKUP, FORGET, GETATTR, SETATTR, MKDIR, UNLINK, RMDIR = 1, 2, 3, 4, 9, 10, 11
RENAME, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = 12, 14, 15, 16, 17, 18, 20, 25, 26
OPENDIR, READDIR, RELEASEDIR, FSYNCDIR, CREATE, BATCH_FORGET, RENAME2 = 27, 28, 29, 30, 35, 42, 45
INTERRUPT = 36
OPENED = struct.pack("<QII", 1, 0, 0)


class Node:
    """A file or directory."""

    def __init__(self, mode):
        self.mode, self.links, self.time_ns = mode, 1, time.time_ns()
        self.names, self.content, self.lost = {}, bytearray(), False


class Disk:
    def __init__(self, limit):
        self.limit = limit
        self.nodes = {1: Node(stat.S_IFDIR | 0o755)}

    def serve(self, device):
        while True:
            try:
                request = os.read(device, PIECE + 4096)
            except OSError:
                return  # it was unmounted
            _, code, unique, number, *_ = struct.unpack_from("<IIQQIIII", request)
            if code in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            answer, error = b"", 0
            try:
                answer = self.answer(code, number, request[40:])
            except OSError as failure:
                error = failure.errno
            head = struct.pack("<IiQ", 16 + len(answer), -error, unique)
            os.write(device, head + answer)

    def attributes(self, number):
        node = self.nodes[number]
        size, (seconds, ns) = len(node.content), divmod(node.time_ns, 10**9)
        times = [seconds] * 3 + [ns] * 3
        blocks = (size + 511) // 512
        fields = [number, size, blocks, *times, node.mode, node.links, 0, 0, 0, 4096, 0]
        return struct.pack("<QQQqqqIIIIIIIIII", *fields)

    def entry(self, number):
        return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + self.attributes(number)

    def make(self, above, name, mode):
        if name in above.names:
            raise OSError(errno.EEXIST, "")
        number = max(self.nodes) + 1
        self.nodes[number] = Node(mode)
        above.names[name] = number
        return self.entry(number)

    def hand_over(self, node):
        """What a close or a sync says."""
        if node.lost:
            node.lost = False
            raise OSError(errno.EDQUOT, "")
        return b""

    def answer(self, code, number, body):
        node = self.nodes[number] if code != INIT else None
        if code == INIT:
            _, _, ahead, flags = struct.unpack_from("<IIII", body)
            fields = [7, 31, ahead, flags & 1 << 5, 12, 10, PIECE, 1, 32, 0]
            return struct.pack("<IIIIHHIIHH", *fields) + bytes(28)
        if code == LOOKUP:
            name = body.partition(b"\0")[0]
            if name not in node.names:
                raise OSError(errno.ENOENT, "")
            return self.entry(node.names[name])
        if code in (GETATTR, SETATTR):
            if code == SETATTR:
                self.set(node, struct.unpack_from("<IIQQQqqqIIII", body))
            return struct.pack("<QII", 0, 0, 0) + self.attributes(number)
        if code == MKDIR:
            return self.make(node, body[8:].partition(b"\0")[0], stat.S_IFDIR | 0o755)
        if code == CREATE:
            return self.make(node, body[16:].partition(b"\0")[0], stat.S_IFREG | 0o600) + OPENED
        if code in (UNLINK, RMDIR):
            self.nodes[node.names.pop(body.partition(b"\0")[0])].links -= 1
        if code in (RENAME, RENAME2):
            (to,) = struct.unpack_from("<Q", body)
            old, new, *_ = body[8 if code == RENAME else 16 :].split(b"\0")
            self.nodes[to].names[new] = node.names.pop(old)
        if code in (OPEN, OPENDIR):
            return OPENED
        if code in (READ, READDIR):
            _, offset, size = struct.unpack_from("<QQI", body)
            content = node.content if code == READ else self.listing(node)
            return bytes(content[offset : offset + size])
        if code == WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            self.write(node, offset, body[40 : 40 + size])
            return struct.pack("<II", size, 0)
        if code in (FLUSH, FSYNC):
            return self.hand_over(node)
        if code == STATFS:
            return struct.pack("<QQQQQIIII", *5 * [10**6], 4096, 255, 4096, 0) + bytes(24)
        if code not in (UNLINK, RMDIR, RENAME, RENAME2, RELEASE, RELEASEDIR, FSYNCDIR):
            raise OSError(errno.ENOSYS, "")
        return b""

    def set(self, node, fields):
        valid, _, _, size, _, _, time_s, _, _, ns, _, mode = fields
        if valid & 1:  # FATTR_MODE
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        if valid & 8:  # FATTR_SIZE
            node.content[size:] = bytes(max(0, size - len(node.content)))
        if valid & 32:  # FATTR_MTIME
            node.time_ns = time_s * 10**9 + ns

    def write(self, node, offset, data):
        kept = data[: max(0, self.limit - offset)]
        node.lost |= len(kept) < len(data)
        data = kept + bytes(len(data) - len(kept))
        node.content.extend(bytes(max(0, offset - len(node.content))))
        node.content[offset : offset + len(data)] = data

    def listing(self, node):
        told = b""
        for name, number in sorted(node.names.items()):
            length = 24 + len(name) + -len(name) % 8
            kind = stat.S_IFMT(self.nodes[number].mode) >> 12
            fields = struct.pack("<QQII", number, len(told) + length, len(name), kind)
            told += fields + name + bytes(-len(name) % 8)
        return told


def serve(disk, place):
    """Mounts a disk at `place`, prints a line and serves it."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,default_permissions".encode()
    mount = ctypes.CDLL(None, use_errno=True).mount
    if mount(b"weir-test", os.fsencode(place), b"fuse", 0, options):
        sys.exit(os.strerror(ctypes.get_errno()))
    print("mounted", flush=True)
    disk.serve(device)


if __name__ == "__main__":
    serve(Disk(int(sys.argv[2])), sys.argv[1])
