"""What failed never ends with success: every file has an outcome, at both ends."""

import contextlib
import json
import os
import shutil
import struct
import threading
from pathlib import Path

import peer
import pytest
from transfer_world import poll, weir

from weir import Rate
from weir.errors import BadInput, TransferFailed
from weir.transfer import Server, Transfer

MIB = 2**20


@pytest.fixture
def world(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path


def guests(pid: int) -> int:
    """Threads of a server that serve connections, and those that these have begun."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # It has ended meanwhile.
            found += (task / "comm").read_text() == "weir-guest\n"
    return found


def begun(transfer: Transfer) -> Transfer:
    transfer.start()
    return transfer


def test_a_get_that_cannot_store_a_file_fails_and_stores_the_others(serve, world):
    (world / "root" / "tree").mkdir()
    for name in ("blocked", "fine"):
        (world / "root" / "tree" / name).write_text(name)
    here = world / "here"
    (here / "blocked" / "occupant").mkdir(parents=True)
    server = serve("--root", world / "root", "--insecure")
    done = weir("get", f"{server.listen}/tree/", here, "--insecure", "--json")
    assert done.returncode == 5
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (failure,) = [event for event in events if event["event"] == "failed"]
    assert failure["path"] == "blocked" and "directory" in failure["message"]
    last = events[-1]
    assert (last["event"], last["exit_code"]) == ("error", 5)
    assert (last["files_done"], last["files_failed"]) == (1, 1)
    assert (here / "fine").read_text() == "fine"


def test_a_get_counts_what_the_server_could_not_read(world):
    tree = world / "root" / "tree"
    tree.mkdir()
    (tree / "fine").write_text("fine")
    (tree / "nowhere").symlink_to("missing")
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/tree".format(*server.address)
        transfer = begun(Transfer.get([place], world / "here", keys=None, follow_links=True))
        with pytest.raises(TransferFailed, match=r"1 of 2 files failed.*nowhere"):
            transfer.wait()
        (failure,) = transfer.take_failures()
        assert "nowhere" in failure.reason
    assert (world / "here" / "tree" / "fine").read_text() == "fine"


def test_links_and_directories_have_outcomes_too(world):
    source = world / "source"
    (source / "sub").mkdir(parents=True)
    (source / "link").symlink_to("sub")
    here = world / "here"
    (here / "link" / "occupant").mkdir(parents=True)
    (here / "sub").write_text("a file in the directory's place")
    with Server([source], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/".format(*server.address)
        transfer = begun(Transfer.get([place], here, keys=None))
        with pytest.raises(TransferFailed, match="2 of 2 files failed"):
            transfer.wait()
        assert {failure.path for failure in transfer.take_failures()} == {b"link", b"sub"}


def test_a_file_that_changes_during_a_get_is_no_success(world):
    big = world / "root" / "big"
    big.write_bytes(os.urandom(16 * MIB))
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/big".format(*server.address)
        rate = Rate("40 Mbit/s")
        transfer = begun(Transfer.get([place], world / "big", keys=None, rate=rate))
        poll(lambda: transfer.progress().bytes_durable.count > MIB)
        with big.open("ab") as file:
            file.write(b"more")
        transfer.set_rate(None)
        with pytest.raises(TransferFailed, match="changed while it was read"):
            transfer.wait()
    assert not (world / "big").exists()


def put_elsewhere(place: Path, how: str) -> None:
    """Moves a directory away; others take its name but in the first case."""
    there = place.with_name("elsewhere")
    place.rename(there)
    if how == "another":
        place.mkdir()
    if how == "link":
        place.with_name("third").mkdir()
        place.symlink_to("third")


@pytest.mark.parametrize("files", ["large", "small"])
@pytest.mark.parametrize("how", ["gone", "another", "link"])
@pytest.mark.parametrize("way", ["send", "get", "send below"])
def test_what_arrives_in_a_directory_that_is_elsewhere_by_now_has_failed(world, way, how, files):
    source = world / "source"
    source.mkdir()
    count, size = (2, 3 * MIB) if files == "large" else (60, 100_000)
    for number in range(count):
        (source / f"{number:02}").write_bytes(os.urandom(size))
    served = source if way == "get" else world / "root"
    # A look at where it is, and what comes after it, are apart by more than a file takes.
    options = {"keys": None, "rate": Rate("40 Mbit/s")}
    with Server([served], listen="127.0.0.1:0", keys=None) as server:
        host = "{}:{}".format(*server.address)
        if way == "get":
            place = world / "here"
            place.mkdir()
            transfer = Transfer.get([f"{host}/"], place, **options)
        else:
            place = world / "root" / "tree"
            (place / "below").mkdir(parents=True)
            below = "tree/below/" if way == "send below" else "tree/"
            transfer = Transfer.send([f"{source}/"], f"{host}/{below}", **options)
        begun(transfer)
        poll(lambda: transfer.progress().bytes_done.count > MIB)
        put_elsewhere(place, how)
        with pytest.raises(TransferFailed, match="moved, removed or replaced"):
            transfer.wait()
    progress = transfer.progress()
    assert progress.files_failed > 0
    # What failed so is not counted as in place, too; the directory itself may fail.
    assert progress.files_failed + progress.files_done <= count + 1


@pytest.mark.parametrize("way", ["send", "get"])
def test_a_directory_that_is_removed_once_it_was_filled_has_failed(world, way):
    source = world / "source"
    (source / "below").mkdir(parents=True)
    (source / "below" / "file").write_bytes(os.urandom(5 * MIB))  # large ones come first
    (source / "large").write_bytes(os.urandom(4 * MIB))
    options = {"keys": None, "rate": Rate("20 Mbit/s")}
    served, place = (source, world / "here") if way == "get" else (world / "root", world / "root")
    place.mkdir(exist_ok=True)
    with Server([served], listen="127.0.0.1:0", keys=None) as server:
        host = "{}:{}/".format(*server.address)
        if way == "get":
            transfer = Transfer.get([host], place, **options)
        else:
            transfer = Transfer.send([f"{source}/"], host, **options)
        begun(transfer)
        poll(lambda: (place / "below" / "file").exists())
        # What is in place is reported within a twentieth of a second, here or there.
        poll(lambda: transfer.progress().files_done > 0)
        shutil.rmtree(place / "below")
        with pytest.raises(TransferFailed, match='"below" was moved, removed or replaced'):
            transfer.wait()


@pytest.mark.parametrize("how", ["gone", "another", "link"])
def test_a_root_that_is_elsewhere_by_now_takes_and_gives_nothing(serve, world, how):
    (world / "root" / "file").write_text("content")
    (world / "new").write_text("new")
    server = serve("--root", world / "root", "--insecure")
    put_elsewhere(world / "root", how)
    choices = ("--insecure", "--retry", "0 s")
    for words in (
        ("send", world / "new", f"{server.listen}/", *choices),
        ("get", f"{server.listen}/file", world / "here", *choices),
        ("verify", world / "new", f"{server.listen}/file", "--insecure"),
    ):
        done = weir(*words)
        assert done.returncode == 6, done.stderr
        assert "is not where it was when this server began" in done.stderr
    assert not (world / "here").exists() and not (world / "elsewhere" / "new").exists()
    # Where it is put back all is well again.
    if how == "gone":
        (world / "elsewhere").rename(world / "root")
        assert weir("get", f"{server.listen}/file", world / "here", *choices).returncode == 0


def test_two_sources_of_one_name_are_refused_by_both_ways(world):
    """What comes second would take the place of the first."""
    for name in ("a", "b"):
        (world / "root" / name).mkdir()
        (world / "root" / name / "file").write_text(name)
    places = ["a/file", "b/./file"]
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        host = "{}:{}".format(*server.address)
        with pytest.raises(BadInput, match="two of them have this name"):
            Transfer.get([f"{host}/{place}" for place in places], world / "here", keys=None)
        with pytest.raises(BadInput, match="two of them have this name"):
            Transfer.send([world / "root" / x for x in places], f"{host}/in/", keys=None)
        # Contents of directories are laid over one another, as they are by rsync.
        begun(Transfer.get([f"{host}/a/", f"{host}/b/"], world / "here", keys=None)).wait()
    assert (world / "here" / "file").read_text() in {"a", "b"}


def test_the_server_logs_what_failed(world, caplog):
    (world / "root" / "blocked" / "occupant").mkdir(parents=True)
    (world / "blocked").write_text("x")
    with (
        caplog.at_level("INFO", logger="weir.transfer"),
        Server([world / "root"], listen="127.0.0.1:0", keys=None) as server,
    ):
        place = "{}:{}/".format(*server.address)
        with pytest.raises(TransferFailed):
            begun(Transfer.send([world / "blocked"], place, keys=None)).wait()
        poll(lambda: "1 of 1 files failed" in caplog.text)


def test_a_client_that_says_late_why_it_gave_up_broke_nothing(world):
    """The log said so of one whose peer's disk was full, beside that."""
    told = []
    choices = {"listen": "127.0.0.1:0", "keys": None, "on_entry": lambda line, _: told.append(line)}
    with Server([world / "root"], **choices) as server, peer.greeted(server.address) as client:
        client.say(peer.message(peer.FAILURE, b"\x06" + peer.text(b"no room")))
        while client.control.recv(4096):
            pass
    assert told == []


@pytest.mark.parametrize("when", ["at once", "after the answer"])
def test_a_send_does_not_believe_a_receiver_that_is_done_early(world, when):
    source = world / "source"
    source.write_bytes(os.urandom(4 * MIB))
    with peer.Listener() as listener:
        transfer = begun(Transfer.send([source], f"{listener.place}/x", keys=None))
        with listener.accept() as liar:
            if when == "after the answer":
                liar.hear(peer.OFFER)
                run = struct.pack(">QQ", 0, 4)
                liar.say(
                    peer.message(
                        peer.ANSWERS,
                        peer.listed([struct.pack(">QB", 0, 1) + peer.listed([run])]),
                    )
                )
            liar.say(peer.message(peer.FINISHED))
            with pytest.raises(TransferFailed, match="before all of it was delivered"):
                transfer.wait()


def test_a_get_does_not_believe_a_sender_that_leaves_a_file_out(world):
    with peer.Listener() as listener:
        transfer = begun(Transfer.get([f"{listener.place}/x"], world / "x", keys=None))
        with listener.accept() as liar:
            liar.say(peer.message(peer.BEGIN, b"\1"), peer.offer(0, peer.entry(b"x", 10)))
            liar.hear(peer.ANSWERS)
            liar.data.sendall(peer.END)
            liar.say(peer.message(peer.FINISH))
            liar.hear(peer.FINISHED)
            with pytest.raises(TransferFailed, match="offered and not sent"):
                transfer.wait()
    assert not (world / "x").exists()


def test_a_failure_that_has_no_number_is_a_failure_at_the_other_end(world):
    with peer.Listener() as listener:
        transfer = begun(Transfer.get([f"{listener.place}/x"], world / "x", keys=None))
        with listener.accept() as sender:
            sender.say(
                peer.message(peer.BEGIN, b"\0"),
                peer.failed(peer.UNNUMBERED, 7, b"cannot look at it"),
            )
            sender.data.sendall(peer.END)
            sender.say(peer.message(peer.FINISH))
            sender.hear(peer.FINISHED)
            with pytest.raises(TransferFailed, match="cannot look at it"):
                transfer.wait()


def test_two_files_with_one_number_are_refused(world):
    with (
        Server([world / "root"], listen="127.0.0.1:0", keys=None) as server,
        peer.put(server.address, b"in/") as client,
    ):
        client.say(peer.message(peer.BEGIN, b"\0"))
        client.say(peer.offer(5, peer.entry(b"a", 10)), peer.offer(5, peer.entry(b"b", 10)))
        _, body = client.hear(peer.FAILURE)
        assert b"one number" in body


def test_a_peer_that_ends_early_leaves_no_thread_behind(serve, world):
    """Said to be finished, closed without a word, or cut in the middle: all threads end."""
    (world / "root" / "file").write_bytes(os.urandom(3 * MIB))
    server = serve("--root", world / "root", "--insecure")
    host, port = server.listen.rsplit(":", 1)
    served = []

    def end_early(way: str) -> None:
        for _ in range(4):
            with peer.get((host, int(port)), b"file") as client:
                if way == "finished":
                    client.say(peer.message(peer.FINISHED))
                    client.hear(peer.FAILURE)
                served.append(guests(server.process.pid))
            with peer.put((host, int(port)), b"in") as client:
                client.say(peer.message(peer.BEGIN, b"\1"), peer.offer(0, peer.entry(b"x", 9)))
                client.hear(peer.ANSWERS)
                client.say(peer.message(peer.FINISH))

    workers = [threading.Thread(target=end_early, args=(way,)) for way in ("finished", "closed")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert max(served) > 0
    poll(lambda: guests(server.process.pid) == 0)


def test_what_only_counts_keeps_no_list_of_files(world):
    tree = world / "tree"
    tree.mkdir()
    for number in range(20):
        (tree / str(number)).write_text("content")
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        for keeps in (False, True):
            transfer = Transfer.send([tree], "{}:{}/".format(*server.address), keys=None)
            if not keeps:
                transfer.count_only()
            begun(transfer).wait()
            assert transfer.progress().files_done == 20
            assert len(transfer.take_settled()) == (20 if keeps else 0)
