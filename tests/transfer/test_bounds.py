"""Nothing is written or read outside what was asked for, whatever the peer says."""

import os
import stat

import pytest
from transfer_world import poll
from wire_peer import (
    ANSWERS,
    END,
    FAILURE,
    FILE_FAILED,
    FINISHED,
    READY,
    HostileServer,
    begin,
    chunk,
    directories,
    links,
    message,
    offer,
    put,
    read_until,
    session,
)

from weir.errors import WeirError
from weir.transfer import PAUSED, Server, Transfer

OWNED = b"owned\n"


def sending(*entries: bytes, single: bool = False):
    """What a server does that sends `entries`, then the files on offer among them, then ends."""

    def act(control, data):
        control.sendall(message(READY) + begin(single) + b"".join(entries))
        read_until(control, ANSWERS, FILE_FAILED)
        data.sendall(chunk(0, OWNED) + END)
        control.sendall(message(43))
        read_until(control, FINISHED, FAILURE)

    return act


def fetched(act, source, destination, **choices):
    """Runs one get from a hostile server to its end, however that is."""
    with HostileServer(act) as server:
        places = [f"{server.place}/{one}" for one in source.split()]
        transfer = Transfer.get(places, destination, keys=None, **choices)
        transfer.start()
        try:
            transfer.wait()
        except WeirError as error:
            return str(error)
        return "\n".join(transfer.take_notices())


@pytest.fixture
def world(tmp_path):
    for name in ("home/.ssh", "victim"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home" / ".bashrc").write_text("mine")
    return tmp_path


def untouched(world):
    home = world / "home"
    return (
        list((world / "victim").iterdir()) == []
        and list((home / ".ssh").iterdir()) == []
        and (home / ".bashrc").read_text() == "mine"
        and not (home / ".bashrc").is_symlink()
    )


PLANTED = {
    "out of the destination": ["{victim}", "../../victim", "d/../../../victim"],
    "within it, beside what was asked for": ["../.ssh", "../../home/.ssh"],
}


@pytest.mark.parametrize("target", [one for group in PLANTED.values() for one in group])
@pytest.mark.parametrize("unsafe", [False, True])
def test_a_server_cannot_lay_a_link_and_go_through_it(world, target, unsafe):
    target = os.fsencode(target.format(victim=world / "victim"))
    act = sending(links([(b"tree/x", target)]), offer(0, [(b"tree/x/authorized_keys", len(OWNED))]))
    fetched(act, "tree", world / "home", unsafe_links=unsafe)
    assert untouched(world)
    planted = world / "home" / "tree" / "x"
    assert unsafe or not planted.is_symlink()
    assert (world / "home" / "tree").exists()


def test_a_server_cannot_go_through_links_of_an_earlier_get(world):
    (world / "home" / "tree").mkdir()
    (world / "home" / "tree" / "x").symlink_to("../.ssh")
    entry = offer(0, [(b"tree/x/authorized_keys", len(OWNED))])
    fetched(sending(entry), "tree", world / "home")
    assert untouched(world)


@pytest.mark.parametrize("name", [b".bashrc", b".ssh/authorized_keys", b"tree2/x"])
@pytest.mark.parametrize("destination", ["home", "home/new/"])
def test_only_names_that_were_asked_for_are_taken(world, name, destination):
    fetched(sending(offer(0, [(name, len(OWNED))])), "tree report.txt", world / destination)
    assert untouched(world)
    assert not list(world.rglob("tree2"))
    assert not list((world / "home").rglob("authorized_keys"))


@pytest.mark.parametrize("entry", [links([(b".bashrc", b"x")]), directories([(b".ssh", 0o777)])])
def test_links_and_directories_need_a_name_that_was_asked_for(world, entry):
    before = (world / "home" / ".ssh").stat().st_mode
    act = sending(offer(0, [(b"report.txt", len(OWNED))]), entry)
    fetched(act, "report.txt", world / "home")
    assert untouched(world)
    assert (world / "home" / ".ssh").stat().st_mode == before
    assert (world / "home" / "report.txt").read_bytes() == OWNED


def test_links_that_lead_out_are_refused_unless_wanted(world):
    entries = [(b"tree/out", os.fsencode(world / "victim")), (b"tree/in", b"file")]
    act = sending(offer(0, [(b"tree/file", len(OWNED))]), links(entries))
    for unsafe in (False, True):
        fetched(act, "tree", world / f"home/{unsafe}/", unsafe_links=unsafe)
        tree = world / "home" / str(unsafe) / "tree"
        assert (tree / "in").read_bytes() == OWNED
        assert (tree / "out").is_symlink() == unsafe


def root_after(world, *entries: bytes, named: bool = False):
    """The mode of a served root after a client has sent these entries into it."""
    root = world / "root"
    root.mkdir(mode=0o750, exist_ok=True)
    (root / "self").symlink_to(".")
    with (
        Server([("in", root) if named else root], listen="127.0.0.1:0", keys=None) as server,
        session(server.address) as (control, data),
    ):
        control.sendall(put(b"in/" if named else b""))
        control.sendall(begin() + b"".join(entries) + message(43))
        data.sendall(END)
        read_until(control, FINISHED, FAILURE)
    return stat.S_IMODE(root.stat().st_mode)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("path", [b"", b"self"])
def test_a_client_cannot_change_the_served_root_itself(world, path, named):
    assert root_after(world, directories([(path, 0o777)]), named=named) == 0o750


def test_a_client_changes_what_it_made(world):
    assert root_after(world, directories([(b"made", 0o700)])) == 0o750
    assert stat.S_IMODE((world / "root" / "made").stat().st_mode) == 0o700


def test_a_named_root_comes_under_its_name(world):
    (world / "home" / "file").write_text("x")
    with Server([("out", world / "home")], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}".format(*server.address)
        for source, copy in (("out", "copy/out/file"), ("out/", "copy/file")):
            transfer = Transfer.get([f"{place}/{source}"], f"{world}/copy/", keys=None)
            transfer.start()
            assert transfer.wait()
            assert (world / copy).read_text() == "x"


@pytest.mark.parametrize("by_root", [False, True])
def test_a_directory_that_becomes_a_link_while_it_is_sent_leads_nowhere(world, by_root):
    """The sender is held by a pause while its tree changes under it."""
    root, secret = world / "source", world / "victim" / "z"
    sub = root / "tree" / "sub"
    sub.mkdir(parents=True)
    # More than are offered ahead, so that the walk is still going on.
    for number in range(7000):
        (sub / f"a{number:04}").touch()
    (sub / "z").write_text("mine")
    secret.write_text("secret")
    (world / "root").mkdir()
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/".format(*server.address)
        sources = ["tree/"] if by_root else [f"{root}/tree/"]
        more = {"root": root} if by_root else {}
        transfer = Transfer.send(sources, place, keys=None, rate=PAUSED, **more)
        transfer.start()
        poll(lambda: transfer.progress().files_total > 0)
        sub.rename(root / "old")
        (root / "tree" / "sub").symlink_to(world / "victim")
        transfer.set_rate(None)
        with pytest.raises(WeirError):
            transfer.wait()
    arrived = world / "root" / "sub" / "z"
    assert not arrived.exists() or arrived.read_text() != "secret"


@pytest.mark.parametrize("path", ["out", "out/secret", "../victim", "/../victim", "up/victim/z"])
def test_nothing_outside_a_senders_root_is_read(world, path):
    root = world / "source"
    root.mkdir()
    (root / "out").symlink_to(world / "victim")
    (root / "up").symlink_to("..")
    (world / "victim" / "z").write_text("secret")
    with pytest.raises(WeirError):
        choices = {"keys": None, "root": root, "follow_links": True}
        Transfer.send([path], "127.0.0.1:1/x", **choices)


def test_a_senders_root_is_where_its_paths_begin(world):
    root = world / "source"
    (root / "a").mkdir(parents=True)
    (root / "a" / "file").write_text("x")
    (root / "latest").symlink_to("a")
    (world / "root").mkdir()
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}".format(*server.address)
        for source, copy in ((".", "all/a/file"), ("latest/file", "all/file"), ("a", "all/a/file")):
            transfer = Transfer.send([source], f"{place}/all/", keys=None, root=root)
            transfer.start()
            assert transfer.wait()
            assert (world / "root" / copy).read_text() == "x"
