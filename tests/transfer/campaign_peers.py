"""What one peer can do to a server of the mover, as figures.

    PYTHONPATH=tests python tests/transfer/campaign_peers.py

Each line is one figure; the command ends with 1 if one is beyond what is promised.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peer
from test_strangers import Flood, address, threads
from transfer_world import Serve, leftovers, poll, weir
from wire_peer import get, message, session

from weir.transfer import PAUSED, Transfer, keys_init

MIB = 2**20
PLAIN_LIMIT = 1_024


def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8_192, hard), hard))
    figures = [directories, strangers, offers, sessions]
    held = []
    for figure in figures:
        with tempfile.TemporaryDirectory(prefix="weir-peers-") as folder:
            (Path(folder) / "root").mkdir()
            held.append(figure(Path(folder)))
    return 0 if all(held) else 1


def directories(folder):
    """4 000 directories on offer at once, at 1 024 descriptors."""
    tree = folder / "tree"
    for number in range(4_000):
        (tree / str(number)).mkdir(parents=True)
        (tree / str(number) / "f").write_text(str(number))
    command = [sys.executable, __file__, "--directories", str(folder)]
    code = subprocess.run(["prlimit", f"--nofile={PLAIN_LIMIT}", *command]).returncode
    there = folder / "root" / "tree"
    wrong = sum(
        not (there / str(n) / "f").exists() or (there / str(n) / "f").read_text() != str(n)
        for n in range(4_000)
    )
    print(f"4000 directories at {PLAIN_LIMIT} descriptors: {wrong} files missing, exit {code}")
    return wrong == 0 == code


def send_directories(folder):
    """The same in a process of its own, for its limit."""
    server = Serve("--root", str(folder / "root"), "--insecure")
    transfer = Transfer.send([folder / "tree"], f"{server.listen}/", keys=None, rate=PAUSED)
    transfer.start()
    # All are on offer before the first is written.
    poll(lambda: transfer.progress().files_total == 4_000, 120)
    transfer.set_rate(None)
    transfer.wait()
    server.stop()
    return 0


def strangers(folder):
    """600 idle connections without a certificate for 14 s, reopened when closed."""
    keys_init(folder / "keys")
    (folder / "source").write_text("content")
    server = Serve("--root", str(folder / "root"), "--keys", str(folder / "keys"))
    served, worst, began = 0, 0.0, time.monotonic()
    with Flood(address(server), 600):
        while time.monotonic() - began < 14:
            started = time.monotonic()
            place = f"{server.listen}/{served}"
            if weir("send", folder / "source", place, "--keys", folder / "keys").returncode:
                break
            worst, served = max(worst, time.monotonic() - started), served + 1
        lasted = time.monotonic() - began
    server.process.terminate()
    log = sum(len(text) for text in server.process.communicate(timeout=60))
    print(
        f"600 idle strangers for {lasted:.0f} s: {served} of {served} transfers of a known client "
        f"served, the slowest in {worst:.1f} s; the log took {log} bytes"
    )
    return lasted >= 14 and log < 100_000


def offers(folder):
    """Four sparse files of nearly 16 TiB, offered in a few bytes."""
    server = Serve("--root", str(folder / "root"), "--insecure")
    before, sent = resident(server), 0
    with peer.put(address(server), b"in/") as client:
        client.say(peer.message(peer.BEGIN, b"\0"))
        for number in range(4):
            entry = peer.entry(b"f%d" % number, 2**44 - MIB, sparse=1)
            sent += len(peer.offer(number, entry))
            client.say(peer.offer(number, entry))
            client.hear(peer.ANSWERS)
        grown = (resident(server) - before) / 1e6
    poll(lambda: not leftovers(folder))
    server.stop()
    print(f"{sent} bytes of sparse offers: the server grew by {grown:.1f} MB")
    return grown < 50


def resident(server):
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def sessions(folder):
    """1 200 sessions that ask for a file, say "finished" at once and go."""
    (folder / "root" / "file").write_bytes(bytes(3_000_000))
    server = Serve("--root", str(folder / "root"), "--insecure")
    before, done = threads(server), 0
    for _ in range(1_200):
        with session(address(server)) as (control, _):
            control.sendall(get(b"file") + message(44))
            done += 1
    poll(lambda: threads(server) <= before + 2, 60)
    left = threads(server) - before
    code = weir("get", f"{server.listen}/file", folder / "x", "--insecure").returncode
    server.stop()
    print(
        f"{done} sessions ended early: {max(left, 0)} threads more than before, a get exits {code}"
    )
    return left <= 2 and code == 0


if __name__ == "__main__":
    sys.exit(send_directories(Path(sys.argv[2])) if len(sys.argv) == 3 else main())
