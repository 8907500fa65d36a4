"""Wrong requests to `weir observe`, and what becomes of its programs when they are ended."""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import httpx
import pytest
from capture_rig import pcap, raw, tcp, udp

from weir.cli import main
from weir.errors import Unavailable
from weir.observe.desktop import capture, collector, dut
from weir.observe.infiniband import asking, counter_files, discovery, plan, roles, watched

S = 10**9
COMMAND = [sys.executable, "-m", "weir.cli", "observe"]
LIMIT_S = 60.0


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a capture, and one of adapters with two ports that wait."""
    packets = [raw(S, udp(b"weir-start one")), raw(S + S // 10, tcp(1000, 0))]
    (tmp_path / "some.pcap").write_bytes(pcap(packets))
    for number in (1, 2):
        folder = tmp_path / f"adapters/mlx5_0/ports/{number}"
        (folder / "counters").mkdir(parents=True)
        for name, text in (
            ("state", "4: ACTIVE"),
            ("link_layer", "InfiniBand"),
            ("lid", "0x5"),
            ("rate", "56 Gb/sec (4X FDR)"),
            ("counters/port_xmit_wait", "7"),
        ):
            (folder / name).write_text(text)
    monkeypatch.setattr(counter_files, "ROOT", tmp_path / "adapters")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("desktop dut some.pcap --line 0bit/s", "a line has a rate"),
        ("desktop dut some.pcap --gap nan", "--gap nan: a number is needed"),
        ("desktop dut some.pcap --gap 0", "GAP more than 0 s"),
        ("desktop dut some.pcap --gap -1", "GAP more than 0 s"),
        ("desktop dut some.pcap --gap 1e400", "a number is needed"),
        ("desktop dut some.pcap --gap 1e999999999", "a number is needed"),
        ("desktop dut some.pcap --gap 1e50", "up to a day"),
        ("desktop dut some.pcap --size -1", "SIZE is 0 or more"),
        ("desktop dut some.pcap --server 10.0.0.1", "--server and --client go together"),
        ("desktop dut some.pcap --server a --client b", "does not appear to be an IPv4"),
        ("desktop dut some.pcap --server 10.9.9.9 --client 10.0.0.2", "has nothing that 10.9.9.9"),
        ("desktop dut some.pcap --port 9", "nothing that 10.0.0.1, port 9, sent to 10.0.0.2"),
        ("desktop mark start 127.0.0.1 " + "x" * 54, "a label of 54 bytes: 53 are read"),
        ("desktop mark start 127.0.0.1 --marker-port 0", "port 0: 1 to 65535"),
        ("desktop mark start 127.0.0.1 --marker-port 70000", "port 70000: 1 to 65535"),
        ("desktop mark start " + "a" * 70 + ".example", "cannot be a host's name"),
        ("desktop video some.pcap some.pcap --fps 1e99", "--fps 1e99: a number is needed"),
        ("desktop video some.pcap some.pcap --fps 24", "no marker that ends the clip"),
        ("desktop record none0 --out x.pcap", "none0"),
        ("desktop record " + "n" * 20 + " --out x.pcap", "nnn"),
        ("desktop record \udcff --out x.pcap", "\\xff"),
        ("desktop record lo --out none/x.pcap", "No such file"),
        ("desktop record lo --out . --seconds 0", "Is a directory"),
        ("desktop record lo --out x.pcap --seconds soon", "--seconds soon"),
        ("desktop collect --out x --condition b=nan", "NAME=PERCENT"),
        ("desktop collect --out x --condition b=1 --condition b=2", "b has a loss already"),
        ("desktop collect --out . --condition b=1", "is no plain file"),
        ("desktop collect --out x.csv --condition b=1 --listen 127.0.0.1:²", "is not ADDR:PORT"),
        ("desktop collect --out x.csv --condition b=1 --listen " + "a" * 70 + ":0", "listen on"),
        ("desktop capacity --server 1 --bytes 1kB --line 0bit/s", "a line has a rate"),
        ("desktop capacity --server -1 --bytes 1kB --line 1Mbit/s", "0 s or more"),
        ("desktop capacity --server 1 --bytes 1kB --line 1Mbit/s --processors 9999999", "to 1024"),
        ("desktop capacity --server 1 --bytes 1kB --line 1Mbit/s --think 1e20", "up to 1e+09"),
        ("desktop capacity --server 1 --bytes 1kB --line 1Mbit/s --limit -1", "more than 0 s"),
        ("fabric sweep --files --every nan", "--every nan: 0 s or more"),
        ("fabric sweep --files --every inf", "--every inf: 0 s or more"),
        ("fabric top --files --every -1", "--every -1: 0 s or more"),
        ("fabric top --files --count 0", "--count 0: one or more"),
        ("fabric top --files --most -1", "--most -1: 0 or more"),
        ("fabric sweep --files --device-port -1", "--device-port -1"),
        ("fabric rounds --files --out x --window inf", "no time is negative, nor longer"),
        ("fabric rounds --files --out x --gap nan", "no time is negative, nor longer"),
        ("fabric rounds --files --out x --queries 9999999999", "two queries or more"),
        ("fabric rounds --files --out none/x", "No such file"),
        ("fabric analyse some.pcap --tick-ns 0", "--tick-ns 0: more than 0"),
        ("fabric analyse some.pcap --tick-ns nan", "--tick-ns nan: more than 0"),
        ("fabric serve --files --listen 127.0.0.1:99999", "is not ADDR:PORT"),
        ("fabric serve --files --listen 192.0.2.1:0", "cannot listen on"),
        ("fabric plan --out /dev/full", "No space left"),
    ],
)
def test_a_wrong_request_is_one_message(place, capsys, line, words):
    assert main(["observe", *line.split()]) in (2, 3)
    said = capsys.readouterr().err
    if "CAP_NET_RAW" in said:
        pytest.skip("this user may not capture")
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("names", ["Glade,,DAV", "Visualisation", "a\x1b[2J", "\udcff"])
def test_names_that_records_cannot_hold_are_refused(place, capsys, names):
    with pytest.raises(SystemExit) as ended:
        main(["observe", "fabric", "sweep", "--files", "--subsystems", names])
    assert ended.value.code == 2
    assert "is no name of 1 to 9 letters" in capsys.readouterr().err


def test_every_command_that_has_json_says_json(place, capsys):
    path = place / "cluster.net"
    assert main(["observe", "fabric", "plan", "--out", str(path)]) == 0
    for line in (
        "desktop dut some.pcap",
        "desktop mark start 127.0.0.1 --marker-port 5399",
        "desktop capacity --server 0.1 --bytes 1kB --line 1Mbit/s",
        "fabric sweep --files --every 0",
        "fabric top --files --every 0 --count 2",
        "fabric rounds --files --out x.csv --window 0.01 --queries 2 --gap 0",
        "fabric analyse x.csv",
        "fabric classify cluster.net",
        "fabric classify nothing.net",
        "desktop dut nothing.pcap",
    ):
        is_wrong = "nothing" in line
        assert main(["observe", *line.split(), "--json"]) == (2 if is_wrong else 0)
        said = capsys.readouterr()
        lines = [json.loads(one, parse_constant=pytest.fail) for one in said.out.splitlines()]
        assert lines
        assert (lines[-1].get("event") == "error") == is_wrong


# --- programs that go on until they are ended ---


@contextlib.contextmanager
def running(place, *arguments, **options):
    """One of ours over the counter files of `place`."""
    script = (
        "import sys, pathlib; from weir.observe.infiniband import counter_files; "
        f"counter_files.ROOT = pathlib.Path({str(place / 'adapters')!r}); "
        "from weir.cli import main; sys.exit(main())"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    command = [sys.executable, "-c", script, "observe", *arguments]
    with subprocess.Popen(command, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def asked(url):
    return build_opener(ProxyHandler({})).open(url, timeout=LIMIT_S).read().decode()


def test_a_reader_that_never_reads_stops_neither_others_nor_the_end(place):
    line = "fabric serve --files --every 0.05 --listen 127.0.0.1:0 --json"
    with running(place, *line.split()) as process:
        told = json.loads(process.stdout.readline())
        port = int(told["url"].split(":")[2].partition("/")[0])
        with contextlib.ExitStack() as stack:
            for words in (b"", b"GET /metrics HTTP/1.1\r\n\r\n" * 50, b"\xff" * 9000):
                lazy = stack.enter_context(socket.create_connection(("127.0.0.1", port), LIMIT_S))
                lazy.sendall(words)
            end_s = time.monotonic() + LIMIT_S
            while "weir_fabric_waited_ratio{" not in asked(told["url"]):
                assert time.monotonic() < end_s
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert said == b""


def test_a_port_in_use_is_told_before_the_fabric_is_asked(place, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["observe", "fabric", "serve", "--listen", f"127.0.0.1:{port}"]) == 2
    assert "Address already in use" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [20, 80])
def test_top_fits_its_terminal(place, columns):
    """What waits most stays in sight: no more lines than there are, no cell that is cut."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 7, columns, 0, 0))
    shown = b""
    top = ["fabric", "top", "--files", "--every", "0", "--count", "2"]
    # What the tests were started from may say another size, which would count instead.
    env = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    with running(place, *top, stdout=theirs, env=env | {"TERM": "xterm"}) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65536):
                shown += piece
        assert process.wait(LIMIT_S) == 0
        assert process.stderr.read() == b""
    os.close(ours)
    last = shown.decode().rpartition("\x1b[2J")[2].replace("\r\n", "\n")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", last)
    table, _, _ = plain.partition("2 ports: ")
    assert "mlx5_0/1" in table
    assert re.match(r"\s*port +waited", table.removeprefix("\x1b[H"))
    assert max(map(len, table.splitlines())) <= columns
    assert len(plain.splitlines()) <= 7


def reads(pid: int) -> int:
    """How often a process has read so far."""
    told = (Path("/proc") / str(pid) / "io").read_text()
    return int(dict(line.split(": ") for line in told.splitlines())["syscr"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fabric rounds --files --out kept.csv --window 99 --queries 2 --gap 0", "partial: "),
        ("fabric sweep --files --out kept.csv --count 100000 --every 0.01", "partial: "),
        ("fabric top --files --every 0.01", ""),
    ],
)
def test_ctrl_c_keeps_what_there_is_and_says_that_it_is_a_part(place, line, said):
    with running(place, *line.split(), cwd=place) as process:
        path = place / "kept.csv"
        end_s = time.monotonic() + LIMIT_S
        if "top" in line:
            process.stdout.readline()
        else:
            while not (path.exists() and path.stat().st_size > 2000):
                assert time.monotonic() < end_s
                time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert said in told.decode()
    assert "Traceback" not in told.decode()
    if said:
        assert path.read_text().endswith("\n")
        assert main(["observe", "fabric", "analyse", str(path)]) == 0


def test_a_fabric_that_contradicts_itself_for_a_while_ends_no_exporter(monkeypatch, place):
    """It does so just when it changes: what was known goes on, and it is looked at again."""
    fabric = plan.fat_tree(2, 1, 2)
    ports = asking.ports_of(fabric)
    names = asking.Names(fabric, roles.classified(fabric))

    class Clock:
        now = 0

        def now_ns(self):
            self.now += 61 * S
            return self.now

    walks = []

    def walked(kept, again):
        walks.append(again)
        if len(walks) == 1:
            raise Unavailable("ibnetdiscover: \x1b[2J")
        return fabric

    monkeypatch.setattr(discovery, "discovered", walked)
    said = []
    asked_ = watched.Watched(Clock(), ports, names, str, say=said.append)
    assert asked_.renewed(True) is None
    assert asked_.ports is ports
    assert "going on with what was known before" in said[-1]
    assert asked_.renewed(False) == ports
    assert len(walks) == 2
    assert asked_.renewed(False) is None


# --- the form ---


def test_a_rating_that_finds_no_room_is_not_thanked_for_nor_left_in_part(tmp_path, monkeypatch):
    path = tmp_path / "ratings.csv"
    service = collector.app(path, {"b": 0.5})
    before = path.read_bytes()
    told = {"subject": "7", "activity": "a", "condition": "b", "iteration": "2", "rating": "3"}

    def full(descriptor):
        raise OSError(28, "No space left on device")

    def rated():
        async def post():
            reached = httpx.ASGITransport(app=service)
            async with httpx.AsyncClient(transport=reached, base_url="http://form") as client:
                return await client.post("/rate", data=told)

        return asyncio.run(post())

    with monkeypatch.context() as patched:
        patched.setattr(collector.os, "fsync", full)
        answer = rated()
    assert answer.status_code == 507
    assert "Thank you" not in answer.text
    assert path.read_bytes() == before
    assert rated().status_code == 200
    assert path.read_bytes().startswith(before + b"7,a,0.5,2,3\n")
    path.write_bytes(before + b"7,a")
    assert main(["observe", "desktop", "collect", "--out", str(path), "--condition", "b=1"]) == 2


def test_a_capture_that_is_killed_is_read_up_to_the_last_moment(tmp_path):
    path = tmp_path / "live.pcap"
    command = [*COMMAND, "desktop", "record", "lo", "--out", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tap:
        end_s = time.monotonic() + LIMIT_S
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            while not (path.exists() and path.stat().st_size > 200):
                if tap.poll() is not None and "CAP_NET_RAW" in tap.stderr.read():
                    pytest.skip("this user may not capture")
                assert tap.poll() is None
                assert time.monotonic() < end_s
                out.sendto(b"weir-start", ("127.0.0.1", 5398))
                time.sleep(0.05)
        tap.kill()
    assert main(["observe", "desktop", "dut", str(path), "--marker-port", "5398"]) in (0, 2)
    assert dut.tasks(capture.read(path).packets, 5398)


def test_a_capture_into_a_pipe_that_nobody_reads_is_refused(tmp_path, capsys):
    os.mkfifo(tmp_path / "fifo")
    code = main(["observe", "desktop", "record", "lo", "--out", str(tmp_path / "fifo")])
    said = capsys.readouterr().err
    if "CAP_NET_RAW" in said:
        pytest.skip("this user may not capture")
    assert code == 2
    assert "No such device or address" in said


F_SETPIPE_SZ = 1031
PIPE_BYTES = 4096


@contextlib.contextmanager
def full_pipe(path):
    """A FIFO from which nobody reads; gives what waits until it is full.

    That is so once a capture had more packets than go in, and anything else reads no more.
    """
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, F_SETPIPE_SZ, PIPE_BYTES)
    end_s = time.monotonic() + LIMIT_S

    def waits():
        (waiting,) = struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, bytes(4)))
        return waiting

    def fill(process, captures):
        before, now = -1, 0
        while not captures and (before != now or waits() < PIPE_BYTES // 2):
            assert time.monotonic() < end_s
            before = now
            time.sleep(0.3)
            now = reads(process.pid)
        sent = 0
        while captures and sent < 100 * PIPE_BYTES:
            if process.poll() is not None and b"CAP_NET_RAW" in process.stderr.read():
                pytest.skip("this user may not capture")
            assert process.poll() is None
            assert time.monotonic() < end_s
            if not waits():  # it has not begun
                time.sleep(0.01)
                continue
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                sent += out.sendto(bytes(400), ("127.0.0.1", 5398))

    try:
        yield fill
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    "line",
    [
        "desktop record lo --out pipe",
        "fabric rounds --files --out pipe --window 99 --queries 2 --gap 0",
        "fabric sweep --files --out pipe --count 100000 --every 0",
    ],
)
def test_ctrl_c_ends_what_writes_to_a_pipe_that_is_full(place, line):
    with full_pipe(place / "pipe") as fill, running(place, *line.split(), cwd=place) as process:
        fill(process, captures="record" in line)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=LIMIT_S)
    # Threads of a library may take the signal that `record` holds back, as any Ctrl-C is then.
    if "record" in line and process.returncode == 130:
        assert told == b""
        return
    assert process.returncode == 6
    assert "whoever reads this pipe takes nothing" in told.decode()
    assert "Traceback" not in told.decode()


def test_ctrl_c_ends_what_prints_to_a_pipe_that_is_full(place):
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, F_SETPIPE_SZ, PIPE_BYTES)
    with running(place, "fabric", "top", "--files", "--every", "0", stdout=theirs) as process:
        os.close(theirs)
        end_s, before, now = time.monotonic() + LIMIT_S, -1, 0
        # It is stuck when it reads no more counters.
        while before != now or not now:
            assert time.monotonic() < end_s
            before = now
            time.sleep(0.3)
            (waiting,) = struct.unpack("i", fcntl.ioctl(ours, termios.FIONREAD, bytes(4)))
            now = reads(process.pid) if waiting > PIPE_BYTES // 2 else 0
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=LIMIT_S)
    os.close(ours)
    assert (process.returncode, told) == (130, b"")


def test_a_capture_to_the_standard_output_is_a_capture_and_nothing_else(tmp_path):
    command = [*COMMAND, "desktop", "record", "lo", "--out", "/dev/stdout"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, bufsize=0, **pipes) as tap:
        first = tap.stdout.read(24)
        if not first and b"CAP_NET_RAW" in tap.stderr.read():
            pytest.skip("this user may not capture")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.sendto(b"weir-start", ("127.0.0.1", 5397))
        second = tap.stdout.read(16)
        tap.send_signal(signal.SIGINT)
        rest, said = tap.communicate(timeout=LIMIT_S)
    assert tap.returncode == 0
    assert re.fullmatch(rb"/dev/stdout: \d+ packets\n", said)
    path = tmp_path / "some.pcap"
    path.write_bytes(first + second + rest)
    found = capture.read(path)
    assert not found.cut
    assert dut.tasks(found.packets, 5397)


def test_a_capture_that_a_full_disk_ends_says_how_much_there_is(capsys):
    code = main(["observe", "desktop", "record", "lo", "--out", "/dev/full"])
    said = capsys.readouterr().err
    if "CAP_NET_RAW" in said:
        pytest.skip("this user may not capture")
    assert code == 2
    assert "No space left" in said
