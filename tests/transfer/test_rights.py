"""Which client may do what, which server is meant, and whose certificate counts no more."""

import subprocess
from datetime import UTC, datetime

import pytest
from transfer_world import weir

from weir.errors import BadInput, Refused, WeirError
from weir.transfer import Grant, Server, Transfer, keys_init, keys_issue, keys_revoke, keys_show
from weir.transfer.rights import parse, read


@pytest.fixture
def world(tmp_path):
    for name in ("root/ana", "root/shared", "root/eve"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "source").write_text("content")
    (tmp_path / "root" / "shared" / "file").write_text("shared")
    (tmp_path / "root" / "eve" / "secret").write_text("secret")
    keys_init(tmp_path / "keys")
    for name in ("ana", "ben"):
        keys_issue(tmp_path / "keys", tmp_path / name, name, server=False)
    return tmp_path


def serving(world, grants):
    return Server([world / "root"], listen="127.0.0.1:0", keys=world / "keys", rights=grants)


def place(server):
    return "{}:{}".format(*server.address)


def stored(world, server, client, path):
    """Whether this client could store there."""
    return done(Transfer.send([world / "source"], f"{place(server)}/{path}", keys=world / client))


def fetched(world, server, client, path):
    """What this client could fetch from there."""
    copy = world / "copy"
    copy.unlink(missing_ok=True)
    got = done(Transfer.get([f"{place(server)}/{path}"], copy, keys=world / client))
    return copy.read_text() if got and copy.is_file() else None


def done(transfer):
    transfer.start()
    try:
        return transfer.wait()
    except WeirError:
        return False


GRANTS = [Grant("ana", False, prefix="ana"), Grant("ana", True, prefix="shared")]


def test_a_client_does_what_it_was_allowed_and_nothing_else(world):
    with serving(world, GRANTS) as server:
        assert stored(world, server, "ana", "ana/new")
        assert fetched(world, server, "ana", "ana/new") == "content"
        assert fetched(world, server, "ana", "shared/file") == "shared"
        for path in ("shared/new", "new", "eve/new", "ana2", "ana/../eve/new", ""):
            assert not stored(world, server, "ana", path), path
        for path in ("eve/secret", ""):
            assert fetched(world, server, "ana", path) is None, path
        # Who is not named may do nothing.
        assert fetched(world, server, "ben", "shared/file") is None
        assert not stored(world, server, "ben", "ana/new")
    assert sorted(path.name for path in (world / "root").iterdir()) == ["ana", "eve", "shared"]


def test_no_link_leads_from_what_is_allowed_to_what_is_not(world):
    (world / "root" / "ana" / "way").symlink_to("../eve")
    with serving(world, GRANTS) as server:
        assert fetched(world, server, "ana", "ana/way/secret") is None
        assert not stored(world, server, "ana", "ana/way/new")


def below(folder):
    """All that stands below a folder: modes and times of directories, contents of files."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        stat = path.lstat()
        content = path.read_text() if path.is_file() else (stat.st_mode, stat.st_mtime_ns)
        found[str(path.relative_to(folder))] = content
    return found


# What is sent, below what of the root, by a client who may write to all but `shared`.
WAYS = {
    "in a tree": ({"shared/file": "other"}, ""),
    "a new file in a tree": ({"shared/new": "other"}, ""),
    "deep in a tree": ({"shared/deep/new": "other"}, ""),
    "an empty directory": ({"shared/": ""}, ""),
    "a link in its place": ({"shared": "->eve"}, ""),
    "by a link": ({"new": "other"}, "way/"),
    "by a link, in a tree": ({"way/file": "other"}, ""),
    "by a link, deep in a tree": ({"way/deep/new": "other"}, ""),
    "where it is not yet": ({"later/new": "other"}, ""),
    "a link where it is not yet": ({"later": "->eve"}, ""),
    "a file where it is not yet": ({"later": "other"}, ""),
}


@pytest.mark.parametrize(
    ("way", "by"),
    # A root is there from the beginning.
    [(way, "a right") for way in WAYS] + [(way, "a root") for way in WAYS if "yet" not in way],
)
def test_what_may_only_be_read_is_not_written_by_way_of_what_is_above_it(world, way, by):
    """The nearest of several paths, or roots, decides, not the one that a request names."""
    here, root = world / "here", world / "root"
    tree, there = WAYS[way]
    for name, content in {**tree, "beside": "content"}.items():
        path = here / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if content.startswith("->"):
            path.symlink_to(content[2:])
        elif content:
            path.write_text(content)
    (root / "way").symlink_to("shared")
    if by == "a right":
        grants = [Grant("ana", False), Grant("ana", True, prefix="shared")]
        grants.append(Grant("ana", True, prefix="later"))
        server = Server([root], listen="127.0.0.1:0", keys=world / "keys", rights=grants)
        above = ""
    else:
        roots, only_read = [("all", root)], [("shared", root / "shared")]
        server = Server(roots, listen="127.0.0.1:0", keys=world / "keys", read_only=only_read)
        above = "all/"
    before = below(root / "shared")
    with server:
        target = f"{place(server)}/{above}{there}"
        assert not done(Transfer.send([f"{here}/"], target, keys=world / "ana"))
        # All else arrives.
        assert there or (root / "beside").read_text() == "content"
        assert fetched(world, server, "ana", f"{above}shared/file") == "shared"
    assert below(root / "shared") == before and not (root / "later").exists()


def test_what_may_be_written_below_what_may_only_be_read_is_written_from_above(world):
    (world / "here" / "shared" / "drop").mkdir(parents=True)
    (world / "here" / "shared" / "drop" / "new").write_text("content")
    grants = [Grant("ana", False), Grant("ana", True, prefix="shared")]
    grants.append(Grant("ana", False, prefix="shared/drop"))
    (world / "root" / "shared" / "drop").mkdir()
    before = (world / "root" / "shared").stat()
    with serving(world, grants) as server:
        sent = Transfer.send([f"{world}/here/"], f"{place(server)}/", keys=world / "ana")
        # The directory above is told, too, and is not its to change.
        assert not done(sent)
        assert (world / "root" / "shared" / "drop" / "new").read_text() == "content"
    after = (world / "root" / "shared").stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


@pytest.mark.parametrize(("name", "asked"), [("", ""), ("data", "data/ana")])
def test_no_client_is_told_where_a_server_has_its_root(world, name, asked):
    """What cannot be sent is called as the client calls it, not by its place on the server."""
    left_out = ".weir-0123456789abcdef.part"
    (world / "root" / "ana" / left_out).write_text("in progress")
    (world / "root" / "ana" / "loop").symlink_to("loop")
    root = (name, world / "root") if name else world / "root"
    grants = [Grant("ana", False, prefix="ana" if asked else "", root=name)]
    own = f"{name}/ana".lstrip("/")
    with Server([root], listen="127.0.0.1:0", keys=world / "keys", rights=grants) as server:
        remote, keys = f"{place(server)}/{asked}", ["--keys", world / "ana"]
        (world / "empty").mkdir()
        for command in (["get", remote, world / "copy"], ["verify", f"{world}/empty/", remote]):
            for more, what in ([], left_out), (["--copy-links"], "loop"):
                found = weir(*command, *more, *keys)
                said = found.stdout + found.stderr
                assert found.returncode != 0 and f'"{own}/{what}"' in said, said
                assert f"{world}/root" not in said


def test_without_rights_every_certificate_may_do_what_the_roots_allow(world):
    with serving(world, None) as server:
        assert stored(world, server, "ben", "eve/new")


def test_rights_without_keys_are_refused(world):
    with pytest.raises(BadInput, match="certificates"):
        Server([world / "root"], listen="127.0.0.1:0", keys=None, rights=GRANTS)


def test_rights_are_read_from_the_command_line_and_from_a_file(world):
    assert parse("ana=rw:ana/", [""]) == Grant("ana", False, "", "ana")
    assert parse("ben=ro", [""]) == Grant("ben", True, "", "")
    assert parse("ben=ro:in/x/y", ["in", "out"]) == Grant("ben", True, "in", "x/y")
    for wrong in ("ana", "ana=rx", "=rw", "ana=ro:elsewhere/x"):
        with pytest.raises(BadInput):
            parse(wrong, ["in", "out"])
    file = world / "clients.toml"
    file.write_text('[ana]\nrw = ["ana"]\nro = ["shared"]\n')
    assert read(file, [""]) == GRANTS
    for wrong in ("[ana]\nrx = []\n", '[ana]\nrw = "x"\n', "ana = 1\n", "[ana\n"):
        file.write_text(wrong)
        with pytest.raises(BadInput, match="clients"):
            read(file, [""])


def test_the_command_line_hands_them_on(serve, world):
    server = serve("--root", world / "root", "--keys", world / "keys", "--allow", "ana=ro:shared")
    keys = ["--keys", world / "ana"]
    assert weir("get", f"{server.listen}/shared/file", world / "x", *keys).returncode == 0
    refused = weir("send", world / "source", f"{server.listen}/shared/new", *keys)
    assert refused.returncode == 4 and "read-only" in refused.stderr
    refused = weir("get", f"{server.listen}/eve/secret", world / "x", *keys)
    assert refused.returncode == 4 and "may not use" in refused.stderr


def test_a_revoked_client_is_turned_away_at_once_by_name_or_serial(world):
    with serving(world, None) as server:
        serial = next(serial for _, _, serial, _ in keys_show(world / "ben"))
        for client, holder in (("ana", "ana"), ("ben", serial)):
            assert stored(world, server, client, client + "/before")
            keys_revoke(world / "keys", holder)
            assert not stored(world, server, client, client + "/after")


def test_who_was_revoked_stays_so_whoever_wrote_the_list(world):
    """Its last line may have no end: by hand, or by a disk that was full. The next went on it,
    and neither of both was turned away."""
    (world / "keys" / "revoked").write_text("ben")
    with serving(world, None) as server:
        assert stored(world, server, "ana", "ana/before")
        keys_revoke(world / "keys", "ana")
        assert (world / "keys" / "revoked").read_text() == "ben\nana\n"
        for client in ("ana", "ben"):
            assert not stored(world, server, client, f"{client}/after")


@pytest.mark.parametrize(
    "line", [" ana ", "\ufeffana", "{}", "\t{} ", "ANA:{}", "\u00a0ana\r"], ids=range(6)
)
def test_a_holder_is_revoked_however_the_name_or_number_is_written(world, line):
    """With blanks, as an editor leaves it, or as other programs print serial numbers."""
    serial = next(serial for _, _, serial, _ in keys_show(world / "ana"))
    pairs = [serial[at : at + 2] for at in range(0, len(serial), 2)]
    line = line.removeprefix("ANA:").format(":".join(["00", *pairs]).upper())
    with serving(world, None) as server:
        (world / "keys" / "revoked").write_text(f"{line}\nben\n")
        assert not stored(world, server, "ana", "ana/x")
        (world / "keys" / "revoked").write_text("anatol\nan\nana ben\n")
        assert stored(world, server, "ana", "ana/x")


def test_a_holder_whose_name_has_blanks_is_revoked(world):
    keys_issue(world / "keys", world / "blank", " dtn7 ", server=False)
    with serving(world, None) as server:
        assert stored(world, server, "blank", "x")
        keys_revoke(world / "keys", " dtn7 ")
        assert not stored(world, server, "blank", "y")


def test_a_server_is_known_by_its_name_when_that_is_asked_for(world):
    with serving(world, None) as server:
        target = f"{place(server)}/x"
        right = Transfer.send([world / "source"], target, keys=world / "ana", server_name="server")
        assert done(right)
        wrong = Transfer.send([world / "source"], target, keys=world / "ana", server_name="dtn7")
        wrong.start()
        with pytest.raises(Refused, match='is "server" by its certificate, not "dtn7"'):
            wrong.wait()
        keys_revoke(world / "ana", "server")
        assert not stored(world, server, "ana", "y")


def test_what_keys_show_says_is_what_openssl_says(world):
    for directory, purpose, name in (("keys", "server", "server"), ("ana", "client", "ana")):
        found = [row for row in keys_show(world / directory) if row[0] == purpose]
        [(_, shown, serial, until_s)] = found
        command = ["openssl", "x509", "-noout", "-subject", "-serial", "-enddate", "-in"]
        file = world / directory / f"{purpose}.pem"
        told = subprocess.run([*command, file], capture_output=True, text=True, check=True).stdout
        assert shown == name and told.splitlines()[0].endswith(name)
        assert int(serial, 16) == int(told.split("serial=")[1].split()[0], 16)
        until = told.split("notAfter=")[1].strip()
        expected = datetime.strptime(until, "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC)
        assert until_s == expected.timestamp()
    shown = weir("keys", "show", world / "ana")
    assert shown.returncode == 0 and "client ana: until 20" in shown.stdout
    assert weir("keys", "show", world / "root").returncode == 2
