"""Where programs listen: ports as people write them, and sockets that others have left."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from weir.cli import main
from weir.errors import BadInput
from weir.listener import clear_socket, listen, port_of, remove_socket

NETWORK = {
    "nodes": {"a": {"address": "10.0.0.1"}, "s": {"datapath": "1"}},
    "links": [{"ends": ["a", "s"], "capacity": "1 Gbit/s"}],
}
# Commands that listen at a socket, whose place is to follow.
SOCKETS = (
    ["relay", "proxy", "--listen", "127.0.0.1:0", "--server", "127.0.0.1:9", "--control"],
    ["control", "serve", "--network", "network.json", "--listen", "127.0.0.1:0", "--sflow"],
    ["control", "serve", "--network", "network.json", "--listen"],
)


@pytest.mark.parametrize(
    ("text", "port"), [("0", 0), ("7411", 7411), ("65535", 65_535), ("65536", None), ("00080", 80)]
)
def test_a_port_is_a_number_of_sixteen_bits(text, port):
    assert port_of(text) == port


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1_0", "²", "\uff11", "0x10", "9" * 5000])
def test_what_is_no_port_is_none(text):
    assert port_of(text) is None
    with pytest.raises(BadInput, match="is not ADDR:PORT"):
        listen(f"127.0.0.1:{text}")


def test_an_address_of_one_link_is_listened_at_by_its_interface():
    """By programs in Python, and by the mover's server."""
    tries = (
        "from weir.listener import listen\n"
        "from weir.transfer import Server\n"
        "print(listen('[fe80::7%lo]:7411').getsockname())\n"
        "print(Server(['/tmp'], listen='[fe80::7%lo]:7412', keys=None).address)\n"
    )
    script = 'ip link set lo up && ip -6 address add fe80::7/64 dev lo nodad && exec "$@"'
    command = ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, "-c", tries]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "('fe80::7', 7411, 0, 1)\n('fe80::7%1', 7412)\n", done.stderr


def test_a_socket_that_was_left_goes_and_nothing_else_does(tmp_path):
    left = tmp_path / "left.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(left))
    clear_socket(left)
    assert not left.exists()
    clear_socket(left)
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "folder", "link"):
        with pytest.raises(BadInput, match=f"{name}: there is something that is no socket"):
            clear_socket(tmp_path / name)
    assert (tmp_path / "link").read_text() == "precious"


@pytest.mark.parametrize(("kind", "waiting"), [(socket.SOCK_STREAM, 9), (socket.SOCK_DGRAM, 0)])
def test_a_socket_that_somebody_has_stays(tmp_path, kind, waiting):
    """Whoever has it may be stopped, with nobody accepted and no room for one more."""
    path = tmp_path / "taken.sock"
    with contextlib.ExitStack() as stack:
        taken = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
        taken.bind(str(path))
        made = path.stat()
        if waiting:
            taken.listen(2)
        for _ in range(waiting):
            one = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(str(path))
            with pytest.raises(BadInput, match="another process listens there"):
                clear_socket(path)
        with pytest.raises(BadInput, match="another process listens there"):
            clear_socket(path)
        assert path.exists()
        # Its owner takes it away, and nothing that came in its place.
        path.rename(tmp_path / "moved.sock")
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            remove_socket(path, made)
            assert path.exists()
        remove_socket(tmp_path / "moved.sock", made)
        assert not (tmp_path / "moved.sock").exists()


@pytest.mark.parametrize("words", SOCKETS)
def test_a_socket_is_not_taken_from_whoever_listens_there(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "network.json").write_text(json.dumps(NETWORK))
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind("taken")
        taken.listen()
        made = Path("taken").stat()
        assert main([*words, "taken" if words[0] == "relay" else "unix:taken"]) == 2
        assert "another process listens there" in capsys.readouterr().err
        assert os.path.samestat(Path("taken").stat(), made)


@pytest.mark.parametrize("words", SOCKETS)
def test_a_file_in_the_place_of_a_socket_stays(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "network.json").write_text(json.dumps(NETWORK))
    (tmp_path / "precious").write_text("precious")
    assert main([*words, "precious" if words[0] == "relay" else "unix:precious"]) == 2
    assert "no socket" in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "precious"
