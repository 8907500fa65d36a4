"""`weir relay`: real processes, clients and servers, and what their owner can ask and change."""

import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from relay_rig import PATIENCE_S, WEIR, Server, connected, relay, send_until, throttled
from rig import until

from weir.errors import BadInput, Unavailable
from weir.relay import Relay, allowed, control, weights


@contextlib.contextmanager
def joined(server: int, *arguments: object) -> Iterator[int]:
    """Both ends between clients and a server; where clients connect."""
    with relay("split", "--from", "127.0.0.1", "--to", f"127.0.0.1:{server}") as split:
        to = ("--split", f"127.0.0.1:{split}", "--server", f"127.0.0.1:{server}")
        with relay("join", *to, *arguments) as port:
            yield port


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def test_clients_reach_their_server_and_the_owner_sees_it(server, tmp_path):
    path = tmp_path / "join.sock"
    with joined(server.port, "--control", path) as port:
        until(lambda: control.ask(path, {})["is_connected"], "an aggregate")
        for size in (0, 1, 3_000_000):
            with connected(port) as client:
                client.sendall(bytes(size))
                client.shutdown(socket.SHUT_WR)
                assert client.recv(100) == str(size).encode()
        until(lambda: control.ask(path, {})["ended"] == 3, "all have ended")
        told = subprocess.run([*WEIR, "status", path], capture_output=True, text=True, check=True)
        assert "connected, 0 flows, 3 ended, 0 broken" in told.stdout
    assert not path.exists()


def test_weights_share_a_full_aggregate_and_change_while_it_runs(server, tmp_path):
    path = tmp_path / "join.sock"
    sources = {"127.0.0.2": 1, "127.0.0.3": 2, "127.0.0.4": 5}
    given = [f"{source}={weight}" for source, weight in sources.items()]
    server_at = f"127.0.0.1:{server.port}"
    with relay("split", "--from", "127.0.0.1", "--to", server_at) as split:
        line = f"127.0.0.1:{throttled(split, 4_000_000)}"
        options = [part for text in given for part in ("--weight", text)]
        with relay(
            "join", "--split", line, "--server", server_at, "--control", path, *options
        ) as port:
            until(lambda: control.ask(path, {})["is_connected"], "an aggregate")
            clients = [connected(port, source) for source in sources]
            stop = threading.Event()
            for client in clients:
                threading.Thread(target=send_until, args=(client, stop), daemon=True).start()
            assert shares(path, sources) == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.02)
            changed = ["127.0.0.2=3", "127.0.0.0/8=1"]
            subprocess.run([*WEIR, "weight", path, *changed], check=True)
            assert shares(path, sources) == pytest.approx([3 / 5, 1 / 5, 1 / 5], abs=0.02)
            stop.set()
            for client in clients:
                client.close()


def test_one_client_has_as_many_connections_as_it_may_and_no_more(server, tmp_path):
    path = tmp_path / "join.sock"
    with joined(server.port, "--control", path, "--each-at-most", 2) as port:
        until(lambda: control.ask(path, {})["is_connected"], "an aggregate")
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(connected(port, "127.0.0.2"))
            until(lambda: len(control.ask(path, {})["flows"]) == 2, "both are there")
            with pytest.raises(ConnectionResetError), connected(port, "127.0.0.2") as third:
                third.recv(1)
            with connected(port, "127.0.0.3") as other:
                other.sendall(b"else")
                other.shutdown(socket.SHUT_WR)
                assert other.recv(100) == b"4"
        told = subprocess.run([*WEIR, "status", path], capture_output=True, text=True, check=True)
        assert "its address has 2 connections already" in told.stdout


def test_a_client_of_weight_0_is_held_and_not_for_ever(server, tmp_path):
    path = tmp_path / "join.sock"
    with joined(server.port, "--control", path, "--weight", "127.0.0.2=0") as port:
        until(lambda: control.ask(path, {})["is_connected"], "an aggregate")
        with connected(port, "127.0.0.2") as held, connected(port, "127.0.0.3") as other:
            for client in (held, other):
                client.sendall(bytes(70_000))
                client.shutdown(socket.SHUT_WR)
            assert other.recv(100) == b"70000"
            assert sent(path, ["127.0.0.2"]) == {"127.0.0.2": 0}
            # Who holds it for a while and dies does not hold it longer.
            control.ask(path, {"weights": [["127.0.0.2", 0]], "lease_s": 0.3})
            assert held.recv(100) == b"70000"
    with pytest.raises(Unavailable):
        control.ask(path, {})


def test_a_lease_that_is_renewed_holds_on_and_one_that_cannot_be_is_refused(server, tmp_path):
    path = tmp_path / "join.sock"
    with joined(server.port, "--control", path) as port:
        until(lambda: control.ask(path, {})["is_connected"], "an aggregate")
        control.ask(path, {"weights": [["127.0.0.2", 0]], "lease_s": 0.2})
        control.ask(path, {"weights": [["127.0.0.2", 0]]})  # for good
        with connected(port, "127.0.0.2") as held:
            held.sendall(b"held")
            held.settimeout(0.6)
            with pytest.raises(TimeoutError):
                held.recv(1)
            assert sent(path, ["127.0.0.2"]) == {"127.0.0.2": 0}
        for lease_s in (0, -1, float("nan"), 1e9, "soon"):
            with pytest.raises(BadInput):
                control.ask(path, {"weights": [], "lease_s": lease_s})


def shares(path: Path, sources: dict[str, int]) -> list[float]:
    """What each source sends of 8 MB, once the first 2 MB have gone as before."""
    begin = after(path, sources, 2_000_000, sent(path, sources))
    end = after(path, sources, 8_000_000, begin)
    moved = [end[source] - begin[source] for source in sources]
    return [one / sum(moved) for one in moved]


def after(path: Path, sources, wanted: int, begin: dict[str, int]) -> dict[str, int]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        now = sent(path, sources)
        if sum(now.values()) - sum(begin.values()) >= wanted:
            return now
    raise AssertionError("nothing is sent")


def sent(path: Path, sources) -> dict[str, int]:
    told = {flow["client"].split(":")[0]: flow["bytes_sent"] for flow in status(path)["flows"]}
    return {source: told.get(source, 0) for source in sources}


def status(path: Path):
    return control.ask(path, {})


def test_a_split_end_that_is_killed_resets_its_clients(server, tmp_path):
    command = [*WEIR, "split", "--listen", "127.0.0.1:0", "--json", "--from", "127.0.0.1"]
    command += ["--to", f"127.0.0.1:{server.port}"]
    path = tmp_path / "join.sock"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as split:
        assert split.stdout
        port = json.loads(split.stdout.readline())["port"]
        ends = ("--split", f"127.0.0.1:{port}", "--server", f"127.0.0.1:{server.port}")
        with relay("join", *ends, "--control", path) as join:
            until(lambda: status(path)["is_connected"], "an aggregate")
            with connected(join) as client:
                client.sendall(b"something")
                until(lambda: status(path)["bytes_sent"] == 9, "it is on its way")
                split.kill()
                with pytest.raises(ConnectionResetError):
                    client.recv(1)
            until(lambda: status(path)["broken"] == 1, "it is said")


def test_a_control_socket_is_its_owners_and_one_relays(server, tmp_path):
    path = tmp_path / "proxy.sock"
    to = ("--server", f"127.0.0.1:{server.port}", "--control", path)
    with relay("proxy", *to) as port:
        assert oct(path.stat().st_mode & 0o777) == "0o600"
        with connected(port) as client:
            client.sendall(bytes(70_000))
            client.shutdown(socket.SHUT_WR)
            assert client.recv(100) == b"70000"
        again = subprocess.run(
            [*WEIR, "proxy", *map(str, to), "--listen", "127.0.0.1:0"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert again.returncode == 2
        assert "another process listens there" in again.stderr
        with pytest.raises(BadInput, match="nothing is joined here"):
            control.ask(path, {"weights": [["10.0.0.0/8", 2]]})
        with pytest.raises(BadInput):
            control.ask(path, {"weights": 7})
    with pytest.raises(Unavailable):
        control.ask(path, {})


def test_who_holds_a_control_socket_open_holds_nobody_up(server, tmp_path):
    """One after the other they were waited for, and whoever asks gives up after ten seconds."""
    path = tmp_path / "proxy.sock"
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            relay("proxy", "--server", f"127.0.0.1:{server.port}", "--control", path)
        )
        held = [
            stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(control.ASKING_MAX)
        ]
        for one in held:
            one.connect(os.fspath(path))
            one.sendall(b'{"half')
        begun_s = time.monotonic()
        assert control.ask(path, {})["flows"] == []
        # Its turn did not come after theirs.
        assert held[0].recv(1) == b"" or time.monotonic() - begun_s < control.PATIENCE_S
        held[-1].settimeout(0)
        with pytest.raises(BlockingIOError):
            held[-1].recv(1)


ODD = [
    b"[" * 100_000,
    b"[1]",
    b"7",
    b'"weights"',
    b'{"weights": [["10.0.0.0/8", -1]]}',
    b'{"weights": [["10.0.0.0/8", Infinity]]}',
    b'{"weights": [["10.0.0.0/8", 1]], "lease_s": 1e400}',
    b'{"weights": {"a": 1}}',
    b'{"announce": [["1.2.3.4:5", 1e400, "1.2.3.4:5", null, []]]}',
    b'{"announce": null, "forget": 5}',
    b"\xff\xfe",
    b"",
]


def test_no_question_however_odd_is_the_last_that_is_answered(server, tmp_path):
    path = tmp_path / "join.sock"
    with joined(server.port, "--control", path):
        for question in ODD:
            with socket.socket(socket.AF_UNIX) as asking:
                asking.settimeout(PATIENCE_S)
                asking.connect(os.fspath(path))
                asking.sendall(question + b"\n")
                with contextlib.suppress(ConnectionResetError):
                    while asking.recv(65_536):
                        pass
            assert control.ask(path, {})["flows"] == []


@pytest.mark.parametrize("answer", [b"[]\n", b"null\n", b"[" * 100_000 + b"\n", b"hello\n", b""])
def test_what_answers_and_is_no_relay_is_told(tmp_path, answer):
    path = tmp_path / "other.sock"

    def serve() -> None:
        asking, _ = listener.accept()
        with asking:
            asking.recv(1_000)
            asking.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(Unavailable, match="relay"):
            control.ask(path, {})
        thread.join(PATIENCE_S)


def test_a_relay_that_had_no_descriptor_left_answers_when_it_has(tmp_path, monkeypatch):
    """As `accept` tells it, once: the thread that answers ended there, and with it all answers."""
    path, failed = tmp_path / "proxy.sock", threading.Event()

    class Scarce(socket.socket):
        def accept(self):
            if not failed.is_set():
                failed.set()
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    monkeypatch.setattr(control.socket, "socket", Scarce)
    proxy = Relay.proxy("127.0.0.1:0", "127.0.0.1:9", False, None, None)
    with control.served(proxy, path):
        assert failed.wait(PATIENCE_S)
        assert control.ask(path, {})["flows"] == []
    proxy.stop()


def test_a_socket_that_a_killed_relay_left_is_no_hindrance(server, tmp_path):
    path = tmp_path / "left.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(path))
    with relay("proxy", "--server", f"127.0.0.1:{server.port}", "--control", path):
        assert status(path)["flows"] == []


def test_what_a_stranger_says_does_nothing_to_a_terminal(tmp_path):
    said = {"is_connected": True, "flows": [], "ended": 0, "broken": 1, "reasons": ["\x1b[2J"]}
    answer = json.dumps(said | {"bytes_sent": 0, "bytes_received": 0}).encode()
    told = told_by_stranger(tmp_path, answer)
    assert told.returncode == 0 and told.stdout.endswith("\n\\x1b[2J\n")


@pytest.mark.parametrize("answer", [b"{}", b'{"aggregates": 5}', b'{"flows": []}'])
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_stranger_is_no_relay_for_a_machine_neither(tmp_path, answer, words):
    """With --json whatever was answered was printed, and all was well."""
    told = told_by_stranger(tmp_path, answer, *words)
    assert told.returncode == 6 and "who answers there is no relay" in told.stderr
    assert not told.stdout or json.loads(told.stdout)["event"] == "error"


@pytest.mark.parametrize("words", [(), ("--json",)])
@pytest.mark.parametrize("redirected", [">/dev/full", ">&-"])
def test_a_status_that_cannot_be_told_is_no_success(tmp_path, words, redirected):
    path = tmp_path / "proxy.sock"
    with relay("proxy", "--server", "127.0.0.1:9", "--control", path):
        command = ["sh", "-c", f'"$@" {redirected}', "sh", *WEIR, "status", str(path), *words]
        told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert told.returncode == 1 and "cannot write to the standard output" in told.stderr


def told_by_stranger(
    folder: Path, answer: bytes, *words: str
) -> "subprocess.CompletedProcess[str]":
    """What `weir relay status` does where somebody else answers."""
    path = folder / "stranger.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            asking, _ = listener.accept()
            with asking, contextlib.suppress(OSError):
                asking.recv(100)
                asking.sendall(answer + b"\n")

        threading.Thread(target=serve, daemon=True).start()
        command = [*WEIR, "status", str(path), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def limited(files: int, *arguments: object) -> "contextlib.AbstractContextManager[int]":
    """A relay that may have so many files open."""
    return relay(*arguments, under=("prlimit", f"--nofile={files}"))


@pytest.mark.parametrize("files", [80, 81])  # connections of a proxy take two
@pytest.mark.parametrize("kind", ["join", "proxy"])
def test_who_finds_no_descriptor_left_is_reset_and_others_go_on(server, tmp_path, kind, files):
    """They waited without a word, as long as those who were there did."""
    path, ends = tmp_path / "control.sock", ["--server", f"127.0.0.1:{server.port}"]
    with contextlib.ExitStack() as stack:
        if kind == "join":
            to = ("--from", "127.0.0.1", "--to", f"127.0.0.1:{server.port}")
            split = stack.enter_context(relay("split", *to))
            ends += ["--split", f"127.0.0.1:{split}"]
        port = stack.enter_context(limited(files, kind, *ends, "--control", path))
        until(lambda: status(path)["is_connected"], "an aggregate")
        first = stack.enter_context(connected(port))
        until(lambda: len(status(path)["flows"]) == 1, "the first is there")
        others = opened(stack, port, 120)
        until(lambda: is_told(path, others), "who is not taken is reset")
        whys = ("as many files open as it may", "no room for a further flow")
        assert any(x.endswith(whys) or whys[0] in x for x in status(path)["reasons"])
        for _ in range(20):
            first.sendall(bytes(100_000))
        first.shutdown(socket.SHUT_WR)
        assert first.recv(100) == b"2000000"
        for one in others:
            one.close()
        until(lambda: status(path)["flows"] == [], "all have left")
        with connected(port) as late:
            late.sendall(b"late")
            late.shutdown(socket.SHUT_WR)
            assert late.recv(100) == b"4"


def opened(stack: contextlib.ExitStack, port: int, count: int) -> list[socket.socket]:
    """So many connections, but for those that are reset at once."""
    clients = []
    for _ in range(count):
        with contextlib.suppress(ConnectionResetError):
            clients.append(stack.enter_context(connected(port)))
    return clients


def is_told(path: Path, clients: list[socket.socket]) -> bool:
    """Whether all but those that the relay has were reset."""
    return len(status(path)["flows"]) - 1 == sum(is_open(one) for one in clients)


def is_open(client: socket.socket) -> bool:
    client.settimeout(0)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize("files", [80, 81, 82, 83])
def test_an_aggregate_for_which_no_descriptor_is_left_ends_no_other(server, tmp_path, files):
    """A second one ended the split end, and so all others."""
    path, server_at = tmp_path / "split.sock", f"127.0.0.1:{server.port}"
    with contextlib.ExitStack() as stack:
        to = ("--from", "127.0.0.1", "--to", server_at, "--control", path)
        split = stack.enter_context(limited(files, "split", *to))
        ends = ("--split", f"127.0.0.1:{split}", "--server", server_at)
        port = stack.enter_context(relay("join", *ends))
        until(lambda: status(path).get("aggregates"), "an aggregate")
        first = stack.enter_context(connected(port))
        opened(stack, port, 120)
        until(lambda: status(path)["aggregates"][0]["broken"] > 20, "it is full")
        opened(stack, split, 4)
        until(lambda: status(path)["broken"] > 0, "others are turned away")
        first.sendall(bytes(70_000))
        first.shutdown(socket.SHUT_WR)
        assert first.recv(100) == b"70000"


@contextlib.contextmanager
def unanswered() -> Iterator[int]:
    """A port whose listener has as many waiting as it takes, so that nobody is answered."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        with contextlib.suppress(TimeoutError):
            while True:
                at = listener.getsockname()
                stack.enter_context(socket.create_connection(at, 0.2))
        yield at[1]


@pytest.mark.parametrize("kind", ["join", "proxy"])
def test_a_connection_begins_with_its_congestion_control(kind):
    """As the kernel tells of it before it is there: what comes later may keep something else."""
    with unanswered() as port, contextlib.ExitStack() as stack:
        to = f"127.0.0.1:{port}"
        default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
        other = "cubic" if default == "reno" else "reno"
        ends = ("--split", to, "--server", "127.0.0.1:1") if kind == "join" else ("--server", to)
        at = stack.enter_context(relay(kind, *ends, "--cca", other))
        if kind == "proxy":
            stack.enter_context(connected(at))
        command = ["ss", "-tinHO", "state", "syn-sent", "dport", "=", f":{port}"]
        found: list[str] = []

        def is_there() -> bool:
            found[:] = subprocess.check_output(command, text=True).splitlines()
            return bool(found)

        until(is_there, "it connects")
        assert all(f" {other} " in line for line in found), found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("join", "--split", "127.0.0.1:1", "--cca", "nothing"), "setting the congestion control"),
        (("join", "--split", "127.0.0.1:1", "--gone-after", "4"), "wanted whole seconds, 5 to"),
        (("join", "--split", "127.0.0.1:1", "--each-at-most", "0"), "connections, 1 to 65532"),
        (("join", "--split", "127.0.0.1:1", "--heard-within", "3601"), "seconds, 5 to 3600"),
        (("join", "--split", "nowhere", "--server", "1.2.3.4:5"), "wanted ADDRESS:PORT"),
        (("join", "--split", "127.0.0.1:1", "--weight", "10.0.0.0/8"), "wanted NETWORK=WEIGHT"),
        (("join", "--split", "127.0.0.1:1", "--weight", "10.0.0.0/8=10001"), "from 0 to 10000"),
        (("join", "--split", "127.0.0.1:1", "--weight", f"::/0={'9' * 5000}"), "from 0 to 1000"),
        (("split", "--from", "10.0.0.1", "--to", f"10.0.0.1:{'9' * 5000}"), "is no port"),
        (("split", "--from", "10.0.0.0/33", "--to", "10.0.0.1"), "at most 32 bits"),
        (("split", "--from", "here", "--to", "10.0.0.1"), "is no network"),
        (("split", "--from", "10.0.0.1", "--to", "10.0.0.1:0"), "0 is no port"),
        (("split", "--from", "10.0.0.1", "--to", "[fd00::1:80"), "never closed"),
        (("join", "--split", "127.0.0.1:0"), "--split 127.0.0.1:0: 0 is no port"),
        (("join", "--split", "127.0.0.1:1", "--server", "[::1]:0"), "--server [::1]:0: 0 is no"),
        (("proxy", "--server", "127.0.0.1:0"), "--server 127.0.0.1:0: 0 is no port"),
    ],
)
def test_what_is_none_is_named(arguments, words):
    command = [*WEIR, *arguments, "--listen", "127.0.0.1:0"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (told.returncode, words in told.stderr) == (2, True), told.stderr


def test_a_port_in_use_is_named(server):
    command = [*WEIR, "proxy", "--server", "127.0.0.1:1", "--listen", f"127.0.0.1:{server.port}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert told.returncode == 2
    assert "in use" in told.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can do without its rights")
@pytest.mark.parametrize(
    "arguments",
    [
        ("join", "--split", "127.0.0.1:1"),
        ("split", "--from", "127.0.0.1", "--to", "127.0.0.1", "--as-client"),
        ("proxy", "--server", "127.0.0.1:1", "--as-client"),
    ],
)
def test_what_takes_root_says_so_at_the_begin(arguments):
    without = ("setpriv", "--bounding-set=-net_admin,-net_raw")
    command = [*without, sys.executable, "-m", "weir.cli", "relay", *arguments]
    told = subprocess.run(
        [*command, "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert told.returncode == 2
    assert told.stderr.startswith("weir: taking part in what is on its way to others (root, or ")


def test_servers_and_weights_as_they_are_written():
    told = allowed(["10.0.0.0/8", "10.0.0.9:443", "fd00::/8", "[fd00::1]:80", "[fd00::2]"])
    wanted = [("10.0.0.0/8", None), ("10.0.0.9", 443), ("fd00::/8", None)]
    assert told == [*wanted, ("fd00::1", 80), ("fd00::2", None)]
    assert weights(["10.0.0.0/8=3"]) == [("10.0.0.0/8", 3)]
