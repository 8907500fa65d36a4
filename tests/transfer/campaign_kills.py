"""kill -9 of sender, receiver or both at random moments, until so many have hit.

    PYTHONPATH=tests python tests/transfer/campaign_kills.py --kills 384

A round is a random tree (empty, small, large and sparse files, links, directories), a way (send or
get) and random options. The command is started again until it ends with 0; each time it or its
server is killed, whatever stands under a final name must be a whole file of the source, and in the
end the trees must be the same and nothing in progress be left. In every fourth round large files
are replaced by others of the same size and time while nobody looks, so that a resume that believed
in those would mix them. Contents are compared by BLAKE3 of the blake3 package and by their bytes.

Prints one line of counts and ends with 0, or says the seed, leaves the folder and ends with 1.
"""

import argparse
import filecmp
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from blake3 import blake3
from rig import WEIR
from transfer_world import Serve, leftovers

MIB = 2**20
TIME_NS = 1_700_000_000_123_456_789
ATTEMPT_S = 300


class Wrong(Exception):
    """Something that must not be."""


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--kills", type=int, default=384, help="how many must hit")
    arguments.add_argument("--first", type=int, default=1, help="the first round's seed")
    args = arguments.parse_args()
    counts, seed, began = Counter(), args.first, time.monotonic()
    while counts["client"] + counts["server"] < args.kills:
        folder = Path(tempfile.mkdtemp(prefix="weir-kills-"))
        try:
            Round(seed, folder, counts).play()
        except (Wrong, RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"seed {seed}: {error}\nleft in {folder}", flush=True)
            return 1
        shutil.rmtree(folder)
        seed += 1
    print(
        f"{counts['client'] + counts['server']} kills ({counts['client']} of the client, "
        f"{counts['server']} of the server) in {seed - args.first} rounds "
        f"({counts['send']} send, {counts['get']} get): {counts['compared']} files compared in the "
        f"end, {counts['looked at']} under final names after kills, {counts['resumed']} times "
        f"resumed with bytes, {counts['replaced']} files replaced between attempts: nothing "
        f"wrong; {time.monotonic() - began:.0f} s"
    )
    return 0


class Round:
    """One tree, sent or fetched under kills."""

    def __init__(self, seed, folder, counts):
        self.dice, self.folder, self.counts = random.Random(seed), folder, counts
        self.way = self.dice.choice(["send", "get"])
        self.served, self.local = folder / "served", folder / "local"
        self.source = (self.local if self.way == "send" else self.served) / "tree"
        self.target = (self.served if self.way == "send" else self.local) / "copy"
        self.replacing = seed % 4 == 0
        # What each file has been, by its name.
        self.versions = {}

    def play(self):
        self.served.mkdir()
        self.local.mkdir()
        size = self.make_tree()
        server = Serve("--root", str(self.served), "--insecure", "--silence", "5 s")
        # As fast as it takes a second or two.
        bits = size * 8 / self.dice.uniform(0.6, 2.0)
        options = [*("--streams", str(self.dice.randint(1, 4)))]
        options += ["--hash", self.dice.choice(["blake3", "blake3", "none"])]
        options += ["--rate", f"{max(bits / 1e6, 1):.3f} Mbit/s"]
        try:
            for _ in range(self.dice.randint(2, 6)):
                if self.killed(server, options):
                    self.after_a_kill()
            self.finish(server, [*options[:4], "--json"])
        finally:
            server.stop()
        self.counts[self.way] += 1
        self.compare()

    def make_tree(self):
        """Files of every kind; answers their sizes together, holes not counted."""
        dice, total = self.dice, 0
        for number in range(dice.randint(1, 40)):
            kind = dice.choice(["empty", "small", "small", "small"])
            total += self.write(f"d{number % 5}/{kind}{number}", kind)
        for number in range(dice.randint(1, 3)):
            total += self.write(f"large{number}", "large")
        for number in range(dice.randint(0, 2)):
            total += self.write(f"d1/sparse{number}", "sparse")
        (self.source / "empty-directory").mkdir()
        (self.source / "link").symlink_to("large0")
        return total

    def write(self, name, kind):
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        most = {"empty": 0, "small": 70_000, "large": 16 * MIB, "sparse": 2 * MIB}[kind]
        data = self.dice.randbytes(self.dice.randint(most // 8, most))
        with path.open("wb") as file:
            for piece in range(3 if kind == "sparse" else 0):
                file.seek(piece * 20 * MIB + self.dice.randint(0, 9) * 4096)
                file.write(data)
            if kind == "sparse":
                file.truncate(64 * MIB)
            else:
                file.write(data)
        os.utime(path, ns=(TIME_NS, TIME_NS))
        self.versions.setdefault(name, set()).add(digest(path))
        return len(data) * (3 if kind == "sparse" else 1)

    def command(self, server, options):
        if self.way == "send":
            places = [f"{self.source}/", f"{server.listen}/copy/"]
        else:
            places = [f"{server.listen}/tree/", str(self.target)]
            self.target.mkdir(exist_ok=True)
        return [WEIR, self.way, *places, "--insecure", "--retry", "20 s", *options]

    def killed(self, server, options):
        """Starts the command and kills one of the two ends, or both; whether that hit."""
        victims = self.dice.choice([["client"], ["server"], ["client", "server"]])
        client = subprocess.Popen(
            [*self.command(server, options), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # Its first event says that it has begun; some are killed before.
        if self.dice.random() < 0.9:
            select.select([client.stdout], [], [], 60)
        end = time.monotonic() + self.dice.uniform(0.0, 2.0)
        while time.monotonic() < end and client.poll() is None:
            time.sleep(0.005)
        hit = client.poll() is None
        for victim in victims if hit else []:
            client.kill() if victim == "client" else server.kill()
            self.counts[victim] += 1
        if "server" in victims and hit:
            self.look()
            server.start()
        try:
            said = client.communicate(timeout=ATTEMPT_S)
        except subprocess.TimeoutExpired:
            client.kill()
            raise Wrong("the client hangs after the kill of its server") from None
        # A first connection that fails is told at once: nothing had begun.
        early = client.returncode == 6 and '"state": "running"' not in said[0]
        if client.returncode not in {0, -9} and not early:
            raise Wrong(f"exit code {client.returncode} after {victims}: {said}")
        return hit

    def after_a_kill(self):
        self.look()
        if self.replacing and self.dice.random() < 0.5:
            path = self.source / "large0"
            before = path.stat().st_size
            path.write_bytes(self.dice.randbytes(before))
            os.utime(path, ns=(TIME_NS, TIME_NS))
            self.versions["large0"].add(digest(path))
            self.counts["replaced"] += 1

    def look(self):
        """Whatever stands under a final name is what a file of the source was, whole."""
        for path in self.target.rglob("*") if self.target.is_dir() else []:
            if path.is_symlink() or not path.is_file() or path.name.startswith(".weir-"):
                continue
            name = str(path.relative_to(self.target))
            if digest(path) not in self.versions.get(name, ()):
                raise Wrong(f"{path} is not a version of its source")
            self.counts["looked at"] += 1

    def finish(self, server, options):
        # What is there already under the time of what replaced it cannot be told from it, so the
        # last run takes another time for it, as a user's change would have.
        if self.replacing:
            os.utime(self.source / "large0", ns=(TIME_NS + 10**9, TIME_NS + 10**9))
        done = subprocess.run(
            self.command(server, options), capture_output=True, text=True, timeout=ATTEMPT_S
        )
        if done.returncode:
            raise Wrong(f"the last run ends with {done.returncode}: {done.stderr[-500:]}")
        last = done.stdout.splitlines()[-1]
        self.counts["resumed"] += '"bytes_resumed": 0,' not in last

    def compare(self):
        here, there = names(self.source), names(self.target)
        if here != there:
            raise Wrong(f"names differ: {here ^ there}")
        for name in here:
            one, other = self.source / name, self.target / name
            if one.is_symlink():
                same = other.is_symlink() and one.readlink() == other.readlink()
            elif one.is_dir():
                same = other.is_dir() and not other.is_symlink()
            else:
                same = digest(one) == digest(other) and filecmp.cmp(one, other, shallow=False)
                self.counts["compared"] += 1
            if not same:
                raise Wrong(f"{name} differs")
        left = leftovers(self.folder)
        if left:
            raise Wrong(f"left in progress: {left}")


def names(root):
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def digest(path):
    return blake3().update_mmap(path).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
