"""Who may talk, and what they can reach."""

import os
import resource
import socket
import ssl
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from blake3 import blake3
from rig import WEIR
from transfer_world import poll, weir

from weir.errors import BadInput, Refused, TransferFailed, WeirError
from weir.transfer import Server, Transfer, keys_init, keys_issue, keys_revoke


@pytest.fixture
def world(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "source").write_text("content")
    (tmp_path / "secret").write_text("secret")
    keys_init(tmp_path / "keys")
    return tmp_path


def place(server):
    return "{}:{}".format(*server.address)


def attempt(transfer):
    transfer.start()
    transfer.wait()


def test_keys_are_private_and_never_overwritten(world):
    for name in ("ca.key", "server.key", "client.key"):
        assert stat.S_IMODE((world / "keys" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((world / "keys").stat().st_mode) == 0o700
    before = (world / "keys" / "ca.key").read_bytes()
    with pytest.raises(BadInput, match="exist already"):
        keys_init(world / "keys")
    assert (world / "keys" / "ca.key").read_bytes() == before


def narrow(most_bytes):
    """As on a disk that is full: no file of a program begun so grows beyond this."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


def everything_in(directory):
    return {one.name: one.read_bytes() for one in directory.iterdir()}


def test_a_set_of_keys_is_written_whole_or_not_at_all(world):
    """Half of one was in the way of the next attempt, and of use to nobody."""
    made = world / "made"
    full = weir("keys", "init", made, preexec_fn=narrow(300))
    assert full.returncode == 2 and "cannot write ca.pem" in full.stderr and not made.exists()
    issue = ["keys", "issue", "dtn7", made, "--authority", world / "keys"]
    full = weir(*issue, preexec_fn=narrow(300))
    assert full.returncode == 2 and "cannot write client.pem" in full.stderr
    assert not made.exists()
    made.mkdir()
    (made / "server.pem").write_text("somebody's")
    with pytest.raises(BadInput, match=r"server\.pem: File exists"):
        keys_init(made)
    assert everything_in(made) == {"server.pem": b"somebody's"}
    assert weir(*issue).returncode == 0


@pytest.mark.parametrize("name", ["ca.pem", "client.pem", "client.key", "revoked"])
def test_nobody_waits_for_a_key_that_never_comes(world, name):
    """A FIFO held up the command, or each connection of a server, for ever."""
    (world / "keys" / name).unlink(missing_ok=True)
    os.mkfifo(world / "keys" / name)
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        send = ["send", world / "source", f"{place(server)}/a", "--keys", world / "keys"]
        done = weir(*send, timeout=30)
    # The list is looked at once there is somebody to look for.
    assert done.returncode == (6 if name == "revoked" else 2), done.stderr
    assert name == "revoked" or "it is no regular file" in done.stderr


def test_nobody_is_let_in_past_a_list_that_cannot_be_read(world):
    keys_issue(world / "keys", world / "ana", "ana", server=False)
    os.mkfifo(world / "keys" / "revoked")
    with Server([world / "root"], listen="127.0.0.1:0", keys=world / "keys") as server:
        send = ["send", world / "source", f"{place(server)}/a", "--keys", world / "ana"]
        refused = weir(*send, timeout=30)
        (world / "keys" / "revoked").unlink()
        assert weir(*send, timeout=30).returncode == 0
    assert refused.returncode != 0, refused.stderr


def test_keys_are_not_issued_beside_another_authority_s(world):
    """Nobody would know them there, and they would know nobody."""
    keys_init(world / "others")
    (world / "others" / "client.key").unlink()
    (world / "others" / "client.pem").unlink()
    before = everything_in(world / "others")
    with pytest.raises(BadInput, match="is of another authority"):
        keys_issue(world / "keys", world / "others", "dtn7", server=False)
    assert everything_in(world / "others") == before
    with (world / "others" / "ca.pem").open("ab") as both:
        both.write((world / "keys" / "ca.pem").read_bytes())
    keys_issue(world / "keys", world / "others", "dtn7", server=False)
    with Server([world / "root"], listen="127.0.0.1:0", keys=world / "keys") as server:
        attempt(Transfer.send([world / "source"], f"{place(server)}/a", keys=world / "others"))
    assert (world / "root" / "a").read_text() == "content"


def test_nobody_is_revoked_by_half_a_name_or_where_nobody_looks(world):
    keys_revoke(world / "keys", "ben")
    full = weir("keys", "revoke", "anatol", world / "keys", preexec_fn=narrow(7))
    assert full.returncode == 2 and "cannot write revoked" in full.stderr
    assert (world / "keys" / "revoked").read_text() == "ben\n", "not ana, whom nobody revoked"
    with pytest.raises(BadInput, match=r"cannot read ca\.pem"):
        keys_revoke(world / "root", "ben")
    assert list((world / "root").iterdir()) == []


def test_openssl_accepts_what_was_issued(world):
    """The certificates are judged by somebody else's verifier."""
    keys_issue(world / "keys", world / "more", "dtn7", server=False)
    assert not (world / "more" / "ca.key").exists()
    for certificate, purpose in (
        ("keys/server.pem", "sslserver"),
        ("more/client.pem", "sslclient"),
    ):
        command = ["openssl", "verify", "-purpose", purpose, "-CAfile", world / "keys" / "ca.pem"]
        done = subprocess.run([*command, world / certificate], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_both_ends_know_each_other_under_tls(world):
    keys_issue(world / "keys", world / "more", "dtn7", server=False)
    with Server([world / "root"], listen="127.0.0.1:0", keys=world / "keys") as server:
        attempt(Transfer.send([world / "source"], f"{place(server)}/a", keys=world / "keys"))
        attempt(Transfer.send([world / "source"], f"{place(server)}/b", keys=world / "more"))
    for name in ("a", "b"):
        assert (world / "root" / name).read_text() == "content"


def test_strangers_are_refused_by_either_end(world):
    keys_init(world / "strange")
    with Server([world / "root"], listen="127.0.0.1:0", keys=world / "keys") as server:
        for keys in (world / "strange", None):
            with pytest.raises(WeirError) as caught:
                attempt(Transfer.send([world / "source"], f"{place(server)}/x", keys=keys))
            assert keys is None or isinstance(caught.value, Refused), caught.value
    # A server with a client's certificate is not a server.
    mixed = world / "mixed"
    mixed.mkdir()
    for target, source in (("server", "client"), ("client", "client")):
        for suffix in ("pem", "key"):
            data = (world / "keys" / f"{source}.{suffix}").read_bytes()
            (mixed / f"{target}.{suffix}").write_bytes(data)
    (mixed / "ca.pem").write_bytes((world / "keys" / "ca.pem").read_bytes())
    with (
        Server([world / "root"], listen="127.0.0.1:0", keys=mixed) as server,
        pytest.raises(Refused),
    ):
        attempt(Transfer.send([world / "source"], f"{place(server)}/x", keys=world / "keys"))
    assert list((world / "root").iterdir()) == []


def test_only_tls_1_3_with_a_certificate_is_spoken(world):
    """The client is Python's OpenSSL, so the server's word is not taken for it."""
    with Server([world / "root"], listen="127.0.0.1:0", keys=world / "keys") as server:
        context = ssl.create_default_context(cafile=world / "keys" / "ca.pem")
        context.load_cert_chain(world / "keys" / "client.pem", world / "keys" / "client.key")
        with (
            socket.create_connection(server.address) as raw,
            context.wrap_socket(raw, server_hostname="weir-server") as secured,
        ):
            assert secured.version() == "TLSv1.3"
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            socket.create_connection(server.address) as raw,
            pytest.raises(ssl.SSLError),
        ):
            context.wrap_socket(raw, server_hostname="weir-server")


def test_an_end_without_tls_and_one_with_it_say_what_to_change(world):
    with Server([world / "root"], listen="127.0.0.1:0", keys=world / "keys") as server:
        done = weir("send", world / "source", f"{place(server)}/x", "--insecure")
    assert done.returncode == 2 and "leave out --insecure" in done.stderr
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        options = ["--keys", world / "keys", "--retry", "0 s"]
        done = weir("send", world / "source", f"{place(server)}/x", *options)
    assert done.returncode == 6 and "run with --insecure?" in done.stderr
    assert list((world / "root").iterdir()) == []


def test_a_server_without_keys_does_not_start_unless_told(world):
    command = ["serve", "--root", world / "root", "--listen", "127.0.0.1:0"]
    done = weir(*command, "--keys", world / "none")
    assert done.returncode == 2
    assert "weir keys init" in done.stderr and "none" in done.stderr


@pytest.mark.parametrize(
    "path", ["../secret", "a/../../secret", "out", "out/secret", "absolute", "deep/../../secret"]
)
def test_nothing_outside_the_root_can_be_fetched(world, path):
    root = world / "root"
    (root / "deep").mkdir()
    (root / "out").symlink_to(world)
    (root / "absolute").symlink_to(world / "secret")
    with (
        Server([root], listen="127.0.0.1:0", keys=None) as server,
        pytest.raises(WeirError),
    ):
        choices = {"keys": None, "follow_links": True}
        attempt(Transfer.get([f"{place(server)}/{path}"], world / "stolen", **choices))
    assert list(world.glob("stolen/**/secret")) == [] and not (world / "stolen").is_file()


def test_nothing_outside_the_root_can_be_written(world):
    root, outside = world / "root", world / "outside"
    outside.mkdir()
    (root / "out").symlink_to(outside)
    (root / "up").symlink_to("..")
    with Server([root], listen="127.0.0.1:0", keys=None) as server:
        for path in ("out/x", "up/outside/x", "../outside/x", "out/new/x"):
            with pytest.raises(WeirError):
                attempt(Transfer.send([world / "source"], f"{place(server)}/{path}", keys=None))
    assert list(outside.iterdir()) == []


def test_links_within_the_root_may_be_used(world):
    root = world / "root"
    (root / "real").mkdir()
    (root / "alias").symlink_to("real")
    with Server([root], listen="127.0.0.1:0", keys=None) as server:
        attempt(Transfer.send([world / "source"], f"{place(server)}/alias/x", keys=None))
    assert (root / "real" / "x").read_text() == "content"


def test_a_read_only_root_is_only_read(world):
    with Server(
        [("in", world / "root")],
        read_only=[("out", world)],
        listen="127.0.0.1:0",
        keys=None,
    ) as server:
        attempt(Transfer.get([f"{place(server)}/out/source"], world / "copy", keys=None))
        assert (world / "copy").read_text() == "content"
        with pytest.raises(Refused, match="read-only"):
            attempt(Transfer.send([world / "source"], f"{place(server)}/out/new", keys=None))
        with pytest.raises(BadInput, match="no such root"):
            attempt(Transfer.send([world / "source"], f"{place(server)}/other/new", keys=None))
    assert not (world / "new").exists()


def test_set_id_bits_do_not_travel(world):
    (world / "source").chmod(0o6755)
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        attempt(Transfer.send([world / "source"], f"{place(server)}/x", keys=None))
    assert stat.S_IMODE((world / "root" / "x").stat().st_mode) == 0o755


GARBAGE = {
    "a length of 4 GiB": b"\xff\xff\xff\xff" + b"x" * 100,
    "a web browser": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "noise": os.urandom(500),
    "nothing": b"",
    "a TLS greeting cut short": b"\x16\x03\x01\x40\x00" + b"\0" * 50,
}


def memory_kib(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


@pytest.mark.parametrize("keys", [True, False])
def test_garbage_is_dropped_and_costs_little(serve, world, keys):
    security = ["--keys", world / "keys"] if keys else ["--insecure"]
    server = serve("--root", world / "root", *security)
    host, port = server.listen.split(":")
    before = memory_kib(server.process.pid)
    held = []
    for _ in range(20):
        for data in GARBAGE.values():
            stranger = socket.create_connection((host, int(port)))
            stranger.sendall(data)
            held.append(stranger)
    poll(lambda: threads(server.process.pid) >= 2)
    assert memory_kib(server.process.pid) - before < 50_000
    for stranger in held:
        stranger.close()
    options = ["--keys", world / "keys"] if keys else ["--insecure"]
    done = weir("send", world / "source", f"{server.listen}/x", *options)
    assert done.returncode == 0, done.stderr


def threads(pid):
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def test_a_stranger_who_waits_is_put_out(serve, world):
    server = serve("--root", world / "root", "--insecure")
    host, port = server.listen.split(":")
    with socket.create_connection((host, int(port))) as stranger:
        stranger.settimeout(60)
        assert stranger.recv(1) == b""


def test_a_data_connection_needs_the_sessions_token(world):
    fields = b"\x01WEIRMOVE" + struct.pack(">H", 1) + b"\x01" + os.urandom(16)
    body = fields + blake3(fields).digest()[:8]
    with (
        Server([world / "root"], listen="127.0.0.1:0", keys=None) as server,
        socket.create_connection(server.address) as stranger,
    ):
        stranger.settimeout(60)
        stranger.sendall(struct.pack(">I", len(body)) + body)
        assert stranger.recv(1) == b""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["send", "{missing}", "127.0.0.1:1/x", "--insecure"], "missing"),
        (["send", "{source}", "127.0.0.1/x", "--insecure"], "no port"),
        (["send", "{source}", "127.0.0.1:99999/x", "--insecure"], "1-65535"),
        (["send", "{source}", "no-such-host.invalid:1/x", "--insecure"], "no-such-host.invalid"),
        (["send", "{source}", "127.0.0.1:1/x", "--insecure", "--rate", "fast"], "fast"),
        (["send", "{source}", "127.0.0.1:1/x", "--insecure", "--rate", "500"], "500"),
        (["send", "{source}", "127.0.0.1:1/x", "--insecure", "--by", "2020-01-01"], "past"),
        (["send", "{source}", "127.0.0.1:1/x", "--insecure", "--by", "soon"], "soon"),
        (["send", "{source}", "127.0.0.1:1/x", "--insecure", "--by", "+3 parsecs"], "parsecs"),
        (["send", "{source}", "127.0.0.1:1/x", "--insecure", "--streams", "0"], "streams"),
        (["send", "{source}", "127.0.0.1:1/x", "--insecure", "--hash", "md5"], "md5"),
        (["send", "{source}", "127.0.0.1:1/x", "--keys", "{missing}"], "weir keys init"),
        (["get", "127.0.0.1:1/x", "{source}/y", "--insecure"], "source"),
        (["serve", "--root", "{missing}", "--listen", "127.0.0.1:0", "--insecure"], "missing"),
        (["serve", "--root", "{source}", "--listen", "127.0.0.1:0", "--insecure"], "source"),
        (["serve", "--root", ".", "--listen", "nowhere", "--insecure"], "nowhere"),
        (["serve", "--listen", "127.0.0.1:0", "--insecure"], "--root"),
        (["serve", "--root", ".", "--root", "a=.", "--listen", ":0", "--insecure"], "name"),
    ],
)
def test_bad_input_is_one_clear_message_and_exit_2(world, arguments, words):
    names = {"missing": world / "missing", "source": world / "source"}
    done = weir(*[argument.format(**names) for argument in arguments])
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_said(serve, world):
    server = serve("--root", world / "root", "--insecure")
    done = weir("serve", "--root", world / "root", "--listen", server.listen, "--insecure")
    assert done.returncode == 2
    assert server.listen in done.stderr and "in use" in done.stderr


def test_a_missing_remote_file_is_bad_input(world):
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        with pytest.raises(BadInput, match="nowhere"):
            attempt(Transfer.get([f"{place(server)}/nowhere"], world / "x", keys=None))
        with pytest.raises((BadInput, TransferFailed), match="congestion"):
            attempt(
                Transfer.send(
                    [world / "source"], f"{place(server)}/x", keys=None, congestion="nonsense"
                )
            )


def test_the_command_starts_quickly():
    """Without FastAPI, rich or asyncio: half of what a person notices."""
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", WEIR, "send", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    for heavy in ("asyncio", "rich", "fastapi", "sqlalchemy", "httpx", "pyroute2"):
        assert f" {heavy}\n" not in loaded, heavy
