"""What is kept free of a disk stays free, and nobody stores more than a quota."""

import contextlib
import os
import shutil
import subprocess
import threading
from pathlib import Path

import peer
import pytest
from blake3 import blake3
from transfer_world import leftovers, poll, weir

from weir import Bytes, Time
from weir.errors import BadInput, TransferFailed
from weir.transfer import Grant, Server, Transfer, keys_init, keys_issue, rights

MIB = 2**20
DISK = 256 * MIB
RESERVE = 100 * MIB


@pytest.fixture
def disk(tmp_path):
    """A file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def free(place) -> int:
    return shutil.disk_usage(place).free


def source(tmp_path, name, size, content=b"\xaa" * MIB):
    with (tmp_path / name).open("wb") as file:
        for _ in range(size // MIB):
            file.write(content)
    return tmp_path / name


def send(path, server, name, **choices):
    transfer = Transfer.send([path], "{}:{}/{}".format(*server.address, name), keys=None, **choices)
    transfer.start()
    return transfer


def serving(disk, **choices):
    return Server([disk], listen="127.0.0.1:0", keys=None, **choices)


def test_a_file_that_would_take_what_is_kept_free_is_refused_before_it_is_sent(disk, tmp_path):
    large = source(tmp_path, "large", 160 * MIB)
    with serving(disk, reserve=Bytes.from_count(RESERVE)) as server:
        with pytest.raises(TransferFailed, match="kept free for others"):
            send(large, server, "large").wait()
        assert list(disk.iterdir()) == []
        os.truncate(large, 150 * MIB)
        send(large, server, "large").wait()
    assert RESERVE <= free(disk) < RESERVE + 10 * MIB


def test_a_hundredth_is_kept_free_where_nothing_else_is_said(disk, tmp_path):
    subprocess.run(["mount", "-o", "remount,size=32m", disk], check=True)
    path = source(tmp_path, "f", 32 * MIB)
    with serving(disk) as server:
        os.truncate(path, 32 * MIB - 250_000)
        with pytest.raises(TransferFailed, match="kept free"):
            send(path, server, "f").wait()
        os.truncate(path, 31 * MIB)
        send(path, server, "f").wait()
    with serving(disk, reserve=Bytes("0 B")) as server:
        os.truncate(path, MIB - 250_000)
        send(path, server, "g").wait()


def test_several_at_a_time_do_not_take_it_either(disk, tmp_path):
    """Each would fit by itself."""
    paths = [source(tmp_path, f"f{number}", 100 * MIB) for number in range(4)]
    least = [free(disk)]
    over = threading.Event()

    def watch():
        while not over.is_set():
            least.append(free(disk))

    watcher = threading.Thread(target=watch)
    with serving(disk, reserve=Bytes.from_count(RESERVE)) as server:
        watcher.start()
        transfers = [send(path, server, path.name, streams=2) for path in paths]
        failed = 0
        for transfer in transfers:
            try:
                transfer.wait()
            except TransferFailed as error:
                assert "kept free" in str(error)
                failed += 1
    over.set()
    watcher.join()
    assert failed >= 3
    # Journals and directories are not counted.
    assert min(least) >= RESERVE - MIB


def test_a_sparse_file_is_refused_when_its_content_takes_too_much(disk, tmp_path):
    """Its size says nothing: by it, it would not fit at all."""
    for name, content in (("empty", b""), ("full", b"\xaa" * 200 * MIB)):
        with (tmp_path / name).open("wb") as file:
            file.write(content)
            file.truncate(600 * MIB)
    with serving(disk, reserve=Bytes.from_count(RESERVE)) as server:
        send(tmp_path / "empty", server, "empty").wait()
        with pytest.raises(TransferFailed, match="kept free"):
            send(tmp_path / "full", server, "full").wait()
    assert free(disk) >= RESERVE - MIB


def test_small_files_count_too(disk, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(300):
        (tree / str(number)).write_bytes(os.urandom(1000) * 1000)
    with (
        serving(disk, reserve=Bytes.from_count(RESERVE)) as server,
        pytest.raises(TransferFailed, match="kept free"),
    ):
        send(f"{tree}/", server, "").wait()
    assert free(disk) >= RESERVE - MIB


def test_what_is_freed_can_be_used_again(disk, tmp_path):
    path = source(tmp_path, "f", 100 * MIB)
    with serving(disk, reserve=Bytes.from_count(RESERVE)) as server:
        send(path, server, "one").wait()
        with pytest.raises(TransferFailed, match="kept free"):
            send(path, server, "two").wait()
        (disk / "one").unlink()
        send(path, server, "two").wait()


def test_a_quota_counts_what_a_root_holds_parts_among_it(tmp_path):
    root, path = tmp_path / "root", source(tmp_path, "f", 30 * MIB)
    (root / "deep" / "er").mkdir(parents=True)
    shutil.copy(path, root / "deep" / "er" / "old")
    # What a client that never came back has left.
    part = root / f".weir-{blake3(b'x').hexdigest()[:16]}.part"
    part.write_bytes(b"\xaa" * 30 * MIB)
    part.chmod(0o600)
    with serving(root, quota=Bytes.from_count(100 * MIB)) as server:
        send(path, server, "one").wait()
        with pytest.raises(TransferFailed, match="the most that may be stored there"):
            send(path, server, "two").wait()
        part.unlink()

        def stored():
            with contextlib.suppress(TransferFailed):
                return send(path, server, "two").wait()

        poll(stored, 60)
        with pytest.raises(TransferFailed, match="the most"):
            send(path, server, "three").wait()
    assert sum(file.stat().st_blocks for file in root.rglob("*")) * 512 <= 100 * MIB
    assert leftovers(root) == []


def test_each_client_has_its_own_quota(tmp_path):
    keys_init(tmp_path / "keys")
    for name in ("dtn7", "dtn9"):
        keys_issue(tmp_path / "keys", tmp_path / name, name, server=False)
    root, path = tmp_path / "root", source(tmp_path, "f", 30 * MIB)
    root.mkdir()
    (tmp_path / "clients.toml").write_text(
        '[dtn7]\nrw = ["dtn7"]\nquota = "40 MB"\n[dtn9]\nrw = ["dtn9"]\n'
    )
    grants = rights.read(tmp_path / "clients.toml", [""])
    assert grants[0] == Grant("dtn7", False, "", "dtn7", Bytes.from_count(40_000_000))
    choices = {"keys": tmp_path / "keys", "rights": grants, "quota": Bytes.from_count(70 * MIB)}
    with Server([root], listen="127.0.0.1:0", **choices) as server:
        place = "{}:{}".format(*server.address)

        def store(client, name):
            transfer = Transfer.send(
                [path], f"{place}/{client}/{name}", keys=tmp_path / client, retry=Time("0 s")
            )
            transfer.start()
            transfer.wait()

        store("dtn7", "one")
        with pytest.raises(TransferFailed, match="the most"):
            store("dtn7", "two")
        store("dtn9", "one")
        store("dtn9", "two")
        with pytest.raises(TransferFailed, match="the most"):
            store("dtn9", "three")


@pytest.mark.parametrize("quota", ["5", '"much"', '["1 GB"]'])
def test_a_quota_is_a_size(tmp_path, quota):
    (tmp_path / "clients.toml").write_text(f'[dtn7]\nrw = [""]\nquota = {quota}\n')
    with pytest.raises(BadInput, match="dtn7"):
        rights.read(tmp_path / "clients.toml", [""])


def test_an_offer_by_itself_takes_no_room_from_others(disk, tmp_path):
    path = source(tmp_path, "f", 100 * MIB)
    with (
        serving(disk, reserve=Bytes.from_count(RESERVE)) as server,
        peer.put(server.address, b"in/") as greedy,
    ):
        greedy.say(peer.message(peer.BEGIN, b"\0"))
        greedy.say(peer.offer(0, peer.entry(b"all", 140 * MIB)))
        greedy.hear(peer.ANSWERS)
        send(path, server, "f").wait()
        assert (disk / "f").read_bytes() == path.read_bytes()


def test_the_command_says_it_too(serve, disk, tmp_path):
    path = source(tmp_path, "f", 160 * MIB)
    server = serve("--root", disk, "--insecure", "--reserve", "120 MB", "--quota", "1 GB")
    place = f"{server.listen}/f"
    done = weir("send", path, place, "--insecure", "--retry", "0 s")
    assert done.returncode == 5 and "beyond the 120 MB kept free for others" in done.stderr
    assert Path(disk / "f").exists() is False


@pytest.mark.parametrize("way", ["send", "get"])
def test_a_disk_that_is_full_of_files_is_the_reason_at_either_end(serve, tmp_path, way):
    """A get said that the connection broke, with the exit code of a peer that is away."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    for number in range(9):
        (here / str(number)).write_text("x")
    there.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=4", "weir-test", there]
    subprocess.run(mount, check=True)
    try:
        served = ("--root", there, "--reserve", "0 B") if way == "send" else ("--root", here)
        server = serve(*served, "--insecure")
        ends = (f"{here}/", f"{server.listen}/") if way == "send" else (f"{server.listen}/", there)
        done = weir(way, *ends, "--insecure", "--retry", "1 s")
    finally:
        subprocess.run(["umount", "-l", there], check=True)
    assert done.returncode == 5, done.stderr
    assert "No space left" in done.stderr.splitlines()[-1]
