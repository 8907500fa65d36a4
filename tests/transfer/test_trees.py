"""Directory trees as rsync users expect them; the oracle walks both sides on its own."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig import WEIR
from transfer_world import leftovers, poll, weir

from weir.errors import TransferFailed
from weir.transfer import Server, Transfer


def listing(top: Path) -> dict[Path, tuple]:
    """Everything below `top`: kind, mode, time, and content or target."""
    found = {}
    for path in top.rglob("*"):
        info = path.lstat()
        mode = stat.S_IMODE(info.st_mode)
        if path.is_symlink():
            facts = ("link", path.readlink())
        elif path.is_dir():
            facts = ("directory", mode, info.st_mtime_ns)
        else:
            facts = ("file", mode, info.st_mtime_ns, path.read_bytes())
        found[path.relative_to(top)] = facts
    return found


names = st.binary(min_size=1, max_size=30).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)
contents = st.one_of(
    st.just(b""),
    st.binary(max_size=200),
    st.integers(2**20 - 2, 2**21 + 2).map(lambda size: os.urandom(16) * (size // 16 + 1)),
)
files = st.tuples(st.just("file"), contents, st.sampled_from([0o644, 0o600, 0o755, 0o400]))
links = st.tuples(
    st.just("link"), st.binary(min_size=1, max_size=40).filter(lambda t: b"\0" not in t)
)
trees = st.recursive(
    st.dictionaries(names, st.one_of(files, links), max_size=4),
    lambda below: st.dictionaries(names, st.one_of(files, links, below), max_size=4),
    max_leaves=8,
)


def build(top: Path, tree: dict) -> None:
    for number, (name, item) in enumerate(tree.items()):
        path = top / os.fsdecode(name)
        if isinstance(item, dict):
            path.mkdir()
            build(path, item)
        elif item[0] == "link":
            path.symlink_to(os.fsdecode(item[1]))
        else:
            path.write_bytes(item[1])
            path.chmod(item[2])
            os.utime(path, ns=(0, 1_234_567_890_123_456_789 + number))
    os.utime(top, ns=(0, 987_654_321_000_000_001))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=trees, streams=st.integers(1, 4), hashing=st.sampled_from(["blake3", "none"]))
def test_any_tree_arrives_as_it_was_and_comes_back(tree, streams, hashing):
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory)
        for name in ("source", "root", "back"):
            (top / name).mkdir()
        build(top / "source", tree)
        with Server([top / "root"], listen="127.0.0.1:0", keys=None) as server:
            place = "{}:{}".format(*server.address)
            choices = {"keys": None, "streams": streams, "hash": hashing}
            for transfer in (
                Transfer.send([top / "source"], f"{place}/", **choices),
                Transfer.get([f"{place}/source/"], top / "back", unsafe_links=True, **choices),
            ):
                transfer.start()
                assert transfer.wait()
        expected = listing(top / "source")
        assert listing(top / "root" / "source") == expected
        assert listing(top / "back") == expected
        assert leftovers(top / "root") == []


def test_names_of_every_kind_and_the_longest(serve, tmp_path):
    source, root = tmp_path / "source", tmp_path / "root"
    source.mkdir()
    root.mkdir()
    odd = [b"new\nline", b"\xff\xfe", b"-rf", b" lead", "ünï".encode(), b"x" * 255, b"a\\b", b"*?"]
    for name in odd:
        (source / os.fsdecode(name)).write_bytes(name * (2**20 // 100))
    deep = source.joinpath(*["d" * 200] * 15)
    deep.mkdir(parents=True)
    (deep / "bottom").write_text("here")
    server = serve("--root", root, "--insecure")
    done = weir("send", f"{source}/", f"{server.listen}/", "--insecure")
    assert done.returncode == 0, done.stderr
    assert listing(root) == listing(source)


def test_a_second_run_moves_nothing_and_a_changed_file_alone(serve, tmp_path):
    source, root = tmp_path / "source", tmp_path / "root"
    source.mkdir()
    root.mkdir()
    for number in range(50):
        (source / f"{number}").write_bytes(os.urandom(1000))
    server = serve("--root", root, "--insecure")
    target = f"{server.listen}/"
    assert weir("send", source, target, "--insecure").returncode == 0
    again = weir("send", source, target, "--insecure")
    assert "(0 B moved, the rest was there)" in again.stderr
    (source / "7").write_bytes(b"y" * 1000)
    again = weir("send", source, target, "--insecure")
    assert "(1 kB moved, the rest was there)" in again.stderr
    assert (root / "source" / "7").read_bytes() == b"y" * 1000


@pytest.mark.parametrize("size", [5, 3 * 2**20])
def test_permissions_that_changed_are_carried_though_the_content_did_not(serve, tmp_path, size):
    root, source = tmp_path / "root", tmp_path / "file"
    root.mkdir()
    source.write_bytes(os.urandom(size))
    source.chmod(0o644)
    server = serve("--root", root, "--insecure")
    for mode in (0o644, 0o600, 0o400, 0o755):
        source.chmod(mode)
        done = weir("send", source, f"{server.listen}/copy", "--insecure")
        assert done.returncode == 0, done.stderr
        assert stat.S_IMODE((root / "copy").stat().st_mode) == mode
    assert "(0 B moved, the rest was there)" in done.stderr


@pytest.mark.parametrize("way", ["send", "get"])
def test_times_beyond_64_bits_of_nanoseconds_are_kept_and_told_apart(tmp_path, way):
    """2300 and 2400 look alike where times saturate in 2262; directories have times, too."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "sub").mkdir(parents=True)
    target.mkdir()
    with Server([target if way == "send" else source], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/".format(*server.address)
        for seconds, text in (
            (10_413_792_000, "old"),
            (13_569_465_600, "new"),
            (-9_000_000_000, ""),
        ):
            (source / "sub" / "f").write_text(text)
            for path in (source / "sub" / "f", source / "sub"):
                os.utime(path, ns=(0, seconds * 10**9 + 123_456_789))
            if (source / "sub").stat().st_mtime_ns != seconds * 10**9 + 123_456_789:
                continue  # This file system has no such time.
            if way == "send":
                transfer = Transfer.send([f"{source}/"], place, keys=None)
            else:
                transfer = Transfer.get([place], target, keys=None)
            transfer.start()
            transfer.wait()
            assert listing(target) == listing(source)


def test_a_file_system_of_whole_seconds_is_not_sent_everything_again(tmp_path):
    image, root = tmp_path / "image", tmp_path / "root"
    root.mkdir()
    with image.open("wb") as file:
        file.truncate(16 * 2**20)
    # Inodes of 128 bytes have no room for more than seconds.
    for command in (
        ["mkfs.ext4", "-q", "-I", "128", image],
        ["mount", "-o", "loop", image, root],
    ):
        if shutil.which(command[0]) is None:
            pytest.skip(f"there is no {command[0]}")
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"{command[0]}: {done.stderr}")
    try:
        source = tmp_path / "file"
        source.write_bytes(b"one")
        os.utime(source, ns=(0, 1_600_000_000_900_000_000))
        with Server([root], listen="127.0.0.1:0", keys=None) as server:

            def moved():
                transfer = Transfer.send([source], "{}:{}/".format(*server.address), keys=None)
                transfer.start()
                transfer.wait()
                progress = transfer.progress()
                return progress.bytes_total.count - progress.bytes_resumed.count

            assert (moved(), moved()) == (3, 0)
            source.write_bytes(b"two")
            os.utime(source, ns=(0, 1_600_000_001_000_000_000))
            assert (moved(), moved()) == (3, 0)
        assert (root / "file").read_bytes() == b"two"
    finally:
        subprocess.run(["umount", root], check=True)


def test_links_are_copied_as_links_or_followed(serve, tmp_path):
    source, root = tmp_path / "source", tmp_path / "root"
    source.mkdir()
    root.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("content")
    (source / "directory").symlink_to(tmp_path / "elsewhere")
    (source / "nowhere").symlink_to("missing")
    (source / "self").symlink_to(".")
    server = serve("--root", root, "--insecure")
    assert weir("send", source, f"{server.listen}/as-links/", "--insecure").returncode == 0
    kept = root / "as-links" / "source"
    assert (kept / "directory").readlink() == tmp_path / "elsewhere"
    assert str((kept / "nowhere").readlink()) == "missing"
    followed = weir("send", source, f"{server.listen}/followed/", "--insecure", "--copy-links")
    # What a link leads to is sent; a link to nowhere and a loop are named.
    assert followed.returncode == 5
    assert "nowhere" in followed.stderr and "leads back" in followed.stderr
    copy = root / "followed" / "source" / "directory"
    assert not copy.is_symlink() and (copy / "file").read_text() == "content"


def test_whoever_names_a_link_is_told_that_it_is_sent_as_one(serve, tmp_path):
    (tmp_path / "content").write_text("content")
    (tmp_path / "root").mkdir()
    (tmp_path / "link\n").symlink_to("content")
    server = serve("--root", tmp_path / "root", "--insecure")
    told = "is a symbolic link, and sent as one; --copy-links sends what it leads to"
    for number, (source, options, is_told) in enumerate(
        (
            ("link\n", [], True),
            ("link\n", ["--copy-links"], False),
            ("link\n", ["--json"], False),
            ("content", [], False),
        )
    ):
        place = f"{server.listen}/{number}/"
        done = weir("send", tmp_path / source, place, "--insecure", *options)
        assert done.returncode == 0 and (told in done.stderr) == is_told, done.stderr
        assert "link\n" not in done.stderr
    assert (tmp_path / "root" / "1" / "link\n").read_text() == "content"


def test_a_link_at_the_destination_is_replaced_not_followed(serve, tmp_path):
    root, victim = tmp_path / "root", tmp_path / "victim"
    root.mkdir()
    victim.write_text("untouched")
    (root / "file").symlink_to(victim)
    (tmp_path / "file").write_text("new")
    server = serve("--root", root, "--insecure")
    assert weir("send", tmp_path / "file", f"{server.listen}/", "--insecure").returncode == 0
    assert victim.read_text() == "untouched"
    assert not (root / "file").is_symlink() and (root / "file").read_text() == "new"


def data_of(path):
    """Where a file is not a hole there is this, zeros at the edges of blocks left out."""
    found, end = {}, 0
    with path.open("rb") as file:
        while end < path.stat().st_size:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:
                break  # Only a hole is left.
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            content = os.pread(file.fileno(), end - start, start)
            for place in range(0, len(content), 4096):
                if block := content[place : place + 4096].strip(b"\0"):
                    found[start + place] = block
    return found


def test_a_sparse_file_over_4_gib_stays_sparse(serve, tmp_path):
    source, root = tmp_path / "sparse", tmp_path / "root"
    root.mkdir()
    size = 2**32 + 12345
    with source.open("wb") as file:
        file.truncate(size)
        for offset in (0, 2**20 + 5000, 2**32 - 3, size - 10):
            file.seek(offset)
            file.write(b"island")
    server = serve("--root", root, "--insecure")
    done = weir("send", source, f"{server.listen}/", "--insecure")
    assert done.returncode == 0, done.stderr
    copy = root / "sparse"
    assert copy.stat().st_size == size
    assert copy.stat().st_blocks * 512 < 2**20
    assert data_of(copy) == data_of(source)


def test_what_cannot_be_copied_is_named_and_the_rest_arrives(serve, tmp_path):
    source, root = tmp_path / "source", tmp_path / "root"
    source.mkdir()
    root.mkdir()
    os.mkfifo(source / "pipe")
    (source / "file").write_text("content")
    server = serve("--root", root, "--insecure")
    done = weir("send", source, f"{server.listen}/", "--insecure")
    assert done.returncode == 0
    assert "skipped" in done.stderr and "pipe" in done.stderr
    assert (root / "source" / "file").read_text() == "content"


@pytest.mark.parametrize("trailing", ["", "/"])
def test_single_file_destinations_follow_rsync(serve, tmp_path, trailing):
    root = tmp_path / "root"
    (root / "there").mkdir(parents=True)
    (tmp_path / "file").write_text("content")
    server = serve("--root", root, "--insecure")
    for target in (f"there{trailing}", f"new/sub{trailing}"):
        done = weir("send", tmp_path / "file", f"{server.listen}/{target}", "--insecure")
        assert done.returncode == 0, done.stderr
    assert (root / "there" / "file").read_text() == "content"
    new = root / "new" / "sub"
    assert (new / "file" if trailing else new).read_text() == "content"


@pytest.mark.parametrize("way", ["send", "get"])
def test_an_empty_directory_sent_alone_arrives(serve, tmp_path, way):
    """As `rsync -r` has it: `DIR/` makes the destination, `DIR` makes one in it."""
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "empty").mkdir(parents=True)
    there.mkdir()
    (there / "file").write_text("no directory")
    served = there if way == "send" else here
    address = serve("--root", served, "--insecure").listen

    def move(source: str, target: str) -> int:
        ends = {
            "send": (f"{here}/{source}", f"{address}/{target}"),
            "get": (f"{address}/{source}", f"{there}/{target}"),
        }
        return weir(way, *ends[way], "--insecure").returncode

    for source, target, made in (
        ("empty/", "new", "new"),
        ("empty", "other", "other/empty"),
        ("empty/", "new", "new"),
        ("empty/", "", "."),
    ):
        assert move(source, target) == 0
        assert (there / made).is_dir()
    assert sorted(path.name for path in there.rglob("*")) == ["empty", "file", "new", "other"]
    assert move("empty/", "file") == 5
    assert (there / "file").read_text() == "no directory"


def test_many_small_files_arrive(tmp_path):
    source, root = tmp_path / "source", tmp_path / "root"
    source.mkdir()
    root.mkdir()
    for number in range(6000):
        (source / f"{number:05}").write_bytes(number.to_bytes(4) * (number % 700))
    with Server([root], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}".format(*server.address)
        transfer = Transfer.send([f"{source}/"], f"{place}/", keys=None, streams=3)
        transfer.start()
        assert transfer.wait()
        progress = transfer.progress()
        assert progress.files_done == progress.files_total == 6000
        assert progress.bytes_durable == progress.bytes_total
    assert listing(root) == listing(source)


def test_two_sources_of_one_name_are_refused(tmp_path):
    from weir.errors import BadInput

    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same").write_text(folder)
    with pytest.raises(BadInput, match="same"):
        Transfer.send([tmp_path / "a/same", tmp_path / "b/same"], "127.0.0.1:1/", keys=None)


def test_a_file_that_cannot_be_read_fails_alone(tmp_path):
    """A directory stands where the file should go: only that file fails."""
    source, root = tmp_path / "source", tmp_path / "root"
    source.mkdir()
    (root / "blocked").mkdir(parents=True)
    (root / "blocked" / "occupant").write_text("x")
    (source / "blocked").write_text("cannot go there")
    (source / "fine").write_text("fine")
    with Server([root], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}".format(*server.address)
        transfer = Transfer.send([f"{source}/"], f"{place}/", keys=None)
        transfer.start()
        with pytest.raises(TransferFailed, match=r"1 of 2 files failed.*blocked"):
            transfer.wait()
    assert (root / "fine").read_text() == "fine"
    assert (root / "blocked" / "occupant").read_text() == "x"


# Root of a user namespace without any privilege owns its files, and that is all.
PLAIN = ["unshare", "-Ur", "setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
BOTH_ENDS = """
import os, sys, time
from weir import Rate
from weir.transfer import Server, Transfer
way, here, there, cut = sys.argv[1:]
with Server([there if way == "send" else here], listen="127.0.0.1:0", keys=None) as server:
    address = "{}:{}".format(*server.address)
    rate = Rate("8 Mbit/s") if cut else None
    if way == "send":
        moving = Transfer.send([f"{here}/tree"], f"{address}/", keys=None, rate=rate)
    else:
        moving = Transfer.get([f"{address}/tree"], there, keys=None, rate=rate)
    moving.start()
    if cut:
        looked = time.monotonic() + 60
        while not os.stat(f"{there}/tree/fixed").st_mode & 0o200:
            assert time.monotonic() < looked
            time.sleep(0.001)
        moving.cancel()
    else:
        moving.wait()
"""


def without_privilege(way, here, there, cut=""):
    """Moves `here/tree` into `there`, both ends without any privilege."""
    command = [*PLAIN, sys.executable, "-c", BOTH_ENDS, way, here, there, cut]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("way", ["send", "get"])
def test_a_directory_that_its_owner_may_not_write_to_is_brought_up_to_date(tmp_path, way):
    """As rsync does: what changed in it arrives, and it has the permissions of its source."""
    here, there = tmp_path / "here", tmp_path / "there"
    fixed = here / "tree" / "fixed"
    (fixed / "deep").mkdir(parents=True)
    there.mkdir()
    for number, name in enumerate(("same", "small", "deep/large")):
        (fixed / name).write_bytes(os.urandom(10 + number * 2**20))
    inside = [fixed / "deep", fixed]
    for _ in range(2):
        for directory in inside:
            directory.chmod(0o555)
        without_privilege(way, here, there)
        assert listing(here) == listing(there)
        for directory in inside:
            directory.chmod(0o755)
        (fixed / "small").write_bytes(b"changed")
        (fixed / "deep" / "large").write_bytes(os.urandom(2**21 + 1))
        (fixed / "deep" / "new").write_bytes(b"new")
        (fixed / "link").unlink(missing_ok=True)
        (fixed / "link").symlink_to("small")
    # What ends before it is told the source's permissions has those of before again.
    (fixed / "deep" / "large").write_bytes(os.urandom(2**24))
    without_privilege(way, here, there, cut="cut")
    modes = [stat.S_IMODE((there / x.relative_to(here)).stat().st_mode) for x in inside]
    assert modes == [0o555, 0o555]
    shutil.rmtree(there / "tree")


@pytest.mark.parametrize("way", ["send", "get"])
def test_a_directory_that_its_owner_may_neither_list_nor_pass_is_brought_up_to_date(tmp_path, way):
    """Who may read everything sends such ones, too; the second run could not use what the first
    had left, of which there may be more than are open at a time."""
    here, there = tmp_path / "here", tmp_path / "there"
    there.mkdir()
    places = [here / "tree" / f"{number}" / "below" for number in range(150)]
    for place in places:
        place.mkdir(parents=True)
        (place / "file").write_bytes(b"first")
    without_privilege(way, here, there)
    outer = [there / place.parent.relative_to(here) for place in places]
    for number, place in enumerate(outer):
        (place / "below").chmod((0o311, 0o100, 0o555)[number % 3])
        place.chmod((0, 0o600, 0o555)[number // 3 % 3])
    for place in places:
        (place / "file").write_bytes(b"second")
        (place / "new").mkdir()
    without_privilege(way, here, there)
    assert listing(here) == listing(there)


@pytest.mark.parametrize("way", ["send", "get"])
def test_a_private_directory_is_open_to_nobody_while_it_is_filled(serve, tmp_path, way):
    """Its permissions come last. Until then, and where a kill ends it before, all that others may
    read in it was there for them."""
    here, there = tmp_path / "here", tmp_path / "there"
    private = here / "tree" / "private"
    private.mkdir(parents=True)
    there.mkdir()
    private.chmod(0o750)
    (private / "a").write_bytes(b"for the owner's group")
    (private / "b").write_bytes(os.urandom(2**23))
    server = serve("--root", there if way == "send" else here, "--insecure")
    remote = f"{server.listen}/tree" if way == "get" else f"{server.listen}/"
    words = ["send", here / "tree", remote] if way == "send" else ["get", remote, there]
    slow = [WEIR, *map(str, words), "--insecure", "--rate", "8 Mbit/s"]
    copy = there / "tree" / "private"

    def mode(path):
        return stat.S_IMODE(path.stat().st_mode)

    with subprocess.Popen(slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as moving:
        poll((copy / "a").exists)
        assert (mode(copy), mode(copy / "a")) == (0o700, 0o644)
        moving.kill()
    assert mode(copy) == 0o700
    assert weir(*words, "--insecure").returncode == 0
    assert (mode(copy), mode(there / "tree")) == (0o750, mode(here / "tree"))


@pytest.mark.parametrize("options", [[], ["--checksum"]], ids=["by time", "by content"])
@pytest.mark.parametrize("way", ["send", "get"])
def test_what_has_other_names_keeps_its_attributes_under_them(serve, tmp_path, way, options):
    """Whoever may make names at the destination had the permissions of any file set by it."""
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        place.mkdir()
    (tmp_path / "other").write_text("content")
    (tmp_path / "other").chmod(0o600)
    os.utime(tmp_path / "other", ns=(0, 10**18))
    for name, time_ns in (("mode", 10**18), ("time", 10**18 + 10**12), ("same", 10**18)):
        (here / name).write_text("content")
        (here / name).chmod(0o600 if name == "same" else 0o666)
        os.utime(here / name, ns=(0, time_ns))
        (there / name).hardlink_to(tmp_path / "other")
    server = serve("--root", there if way == "send" else here, "--insecure")
    remote = f"{server.listen}/"
    words = ["send", f"{here}/", remote] if way == "send" else ["get", remote, there]
    assert weir(*words, "--insecure", *options).returncode == 0
    other = (tmp_path / "other").stat()
    assert (stat.S_IMODE(other.st_mode), other.st_mtime_ns) == (0o600, 10**18)
    assert other.st_nlink == 2  # what needed nothing stayed
    assert listing(here) == listing(there)


def test_a_get_makes_the_directories_above_its_destination(serve, tmp_path):
    """As a send does; but nothing where nothing comes, or a file stands in the way."""
    root = tmp_path / "root"
    (root / "tree").mkdir(parents=True)
    (root / "tree" / "file").write_text("content")
    server = serve("--root", root, "--insecure")

    def get(source, *destination):
        remote, place = f"{server.listen}/{source}", tmp_path.joinpath(*destination)
        return weir("get", remote, f"{place}", "--insecure").returncode

    assert get("tree/file", "a", "b", "copy") == 0
    assert (tmp_path / "a" / "b" / "copy").read_text() == "content"
    assert get("tree", "c", "d") == 0
    assert (tmp_path / "c" / "d" / "tree" / "file").read_text() == "content"
    assert get("missing", "e", "f") == 2 and not (tmp_path / "e").exists()
    assert get("tree", "a", "b", "copy", "x", "y") == 2
    (tmp_path / "way").symlink_to("nowhere")
    assert get("tree", "way", "x") != 0 and not (tmp_path / "nowhere").exists()
    here = weir("get", f"{server.listen}/tree/file", "g/h", "--insecure", cwd=tmp_path)
    assert here.returncode == 0 and (tmp_path / "g" / "h").read_text() == "content"


@pytest.mark.parametrize("way", ["send", "get"])
def test_a_directory_of_a_files_name_is_told_before_the_file_is_sent(serve, tmp_path, way):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    sizes = {"small": 5, "large": 2**23}
    for name, size in sizes.items():
        (here / name).write_bytes(os.urandom(size))
        (there / name).mkdir(parents=True)
    server = serve("--root", there if way == "send" else here, "--insecure")
    remote = f"{server.listen}/"
    words = ["send", f"{here}/", remote] if way == "send" else ["get", remote, there]
    done = weir(*words, "--insecure", "--json")
    last = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 5 and last["files_failed"] == 2 and last["bytes_done"] == 0
    assert "Is a directory" in last["message"] and leftovers(there) == []


@pytest.mark.parametrize("way", ["send", "get"])
def test_whose_a_directorys_files_are_is_said_where_it_is(serve, tmp_path, way):
    """A transfer took the set-gid bit, and the sticky one, from directories that had them."""
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "tree" / "new").mkdir(parents=True)
    (here / "tree" / "file").write_text("x")
    (there / "tree").mkdir(parents=True)
    os.chown(there / "tree", -1, 1)
    (there / "tree").chmod(0o3775)
    (here / "tree").chmod(0o2750)
    (here / "tree" / "new").chmod(0o1700)
    server = serve("--root", there if way == "send" else here, "--insecure")
    ends = (
        (here / "tree", server.listen + "/") if way == "send" else (f"{server.listen}/tree", there)
    )
    assert weir(way, *ends, "--insecure").returncode == 0
    for path, mode in ((there / "tree", 0o3750), (there / "tree" / "new", 0o2700)):
        assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_gid) == (mode, 1)


@pytest.mark.parametrize("order", ["Dd", "dD"])
def test_two_directories_that_are_one_there_are_no_success(serve, tmp_path, order):
    """What came first was lost under what came last, and the transfer ended with 0."""
    source, root = tmp_path / "tree", tmp_path / "root"
    for name, content in (("D", "one"), ("d", "another")):
        (source / name).mkdir(parents=True)
        (source / name / "file").write_text(content)
    real, link = order
    (root / "tree" / real).mkdir(parents=True)
    (root / "tree" / link).symlink_to(real)
    server = serve("--root", root, "--insecure")
    done = weir("send", source, f"{server.listen}/", "--insecure")
    assert done.returncode == 5, done.stderr
    assert "are one directory here" in done.stderr
    # What a link leads to is used all the same where nothing else is there.
    shutil.rmtree(source / real)
    done = weir("send", source, f"{server.listen}/", "--insecure")
    assert done.returncode == 0, done.stderr
    assert (root / "tree" / real / "file").read_text() == (source / link / "file").read_text()
