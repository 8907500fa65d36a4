"""A lab comes up, holds real hosts, goes down, and leaves nothing, whoever is killed."""

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab_rig import LINE, alive, supervisor_of
from rig import PATIENCE_S, WEIR, until

from weir.errors import BadInput, Unsupported, WeirError
from weir.lab import Lab, parse
from weir.lab.asking import ASKING_MAX
from weir.lab.namespaces import Room

STAR = """
[lab]
name = "star"
[hosts]
a = { congestion = "reno" }
b = {}
[routers.r]
[[link]]
ends = ["a", "r"]
mtu = 1400
[[link]]
name = "core"
ends = ["r", "b"]
"""

TALK = """
[[traffic]]
name = "talk"
kind = "iperf3"
from = "a"
to = "b"
[[traffic]]
name = "hum"
kind = "udp"
from = "b"
to = "a"
rate = "1 Mbit/s"
"""


def output(lab, node, *argv):
    return lab.run(node, argv, capture_output=True, text=True).stdout


def test_nodes_reach_each_other_by_name_over_the_router(lab_of):
    lab = lab_of(STAR)
    assert (lab.hosts, lab.routers) == (["a", "b"], ["r"])
    assert f"bytes from b ({lab.address('b')})" in output(lab, "a", "ping", "-c", "1", "b")
    assert output(lab, "a", "hostname").strip() == "a"
    assert (lab.device("r", "a-r"), lab.device("r", "core")) == ("a", "b")
    assert set(output(lab, "b", "ls", "/sys/class/net").split()) == {"lo", "r"}
    assert "mtu 1400" in output(lab, "r", "ip", "link", "show", "dev", "a")
    for key, value in (("ip_forward", "1"), ("conf/all/rp_filter", "0")):
        assert output(lab, "r", "cat", f"/proc/sys/net/ipv4/{key}").strip() == value
    assert output(lab, "b", "cat", "/proc/sys/net/ipv4/ip_forward").strip() == "0"
    assert output(lab, "b", "cat", "/proc/sys/net/ipv4/tcp_rmem").split()[2] == "67108864"


@pytest.mark.parametrize(("host", "other", "control"), [("a", "b", "reno"), ("b", "a", "cubic")])
def test_a_host_uses_the_congestion_control_it_was_given_or_cubic(lab_of, host, other, control):
    """Whatever the machine's own is: it would pace streams that iperf3 then tells to use CUBIC."""
    lab = lab_of(STAR)
    probe = (
        "import socket; s = socket.socket(); s.settimeout(30);"
        f"s.connect(('{lab.address(other)}', 7000));"
        "print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode())"
    )
    listen = "import socket; s = socket.create_server(('', 7000)); print(flush=True); s.accept()"
    python = [sys.executable, "-c"]
    with lab.popen(other, [*python, listen], stdout=subprocess.PIPE) as server:
        assert server.stdout.readline()
        assert output(lab, host, *python, probe).strip() == control


@pytest.mark.parametrize(
    ("host", "segments"), [("{}", 65535), ("{ segmentation_offload = false }", 1)]
)
def test_a_host_without_segmentation_offload_hands_segments_on_one_by_one(lab_of, host, segments):
    lab = lab_of(LINE.replace("a = {}", f"a = {host}"))
    device = ["ip", "-json", "-details", "link", "show", "dev", lab.device("a", "a-b")]
    (shown,) = json.loads(lab.run("a", device, capture_output=True, text=True).stdout)
    assert shown["gso_max_segs"] == segments


def test_a_command_keeps_its_exit_code_directory_and_process_id(lab_of, tmp_path, monkeypatch):
    lab = lab_of(LINE)
    monkeypatch.chdir(tmp_path)
    assert output(lab, "a", "pwd").strip() == str(tmp_path)
    assert lab.run("a", ["sh", "-c", "exit 7"], check=False).returncode == 7
    with pytest.raises(subprocess.CalledProcessError):
        lab.run("a", ["false"])
    shell = lab.popen("a", ["sh", "-c", "echo $$; exec sleep 60"], stdout=subprocess.PIPE)
    with shell:
        assert int(shell.stdout.readline()) == shell.pid
        shell.terminate()
        assert shell.wait(30) == -signal.SIGTERM


def test_a_cut_cable_carries_nothing_until_it_is_mended(lab_of, weir):
    lab = lab_of(LINE)
    ping = ["ping", "-c", "1", "-W", "1", "b"]
    until(lambda: lab.run("a", ping, check=False, stdout=subprocess.DEVNULL).returncode == 0)
    assert weir("lab", "cut", "a-b").returncode == 0
    assert lab.run("a", ping, check=False, stdout=subprocess.DEVNULL).returncode != 0
    assert "NO-CARRIER" in output(lab, "b", "ip", "link", "show", "dev", lab.device("b", "a-b"))
    assert re.search(r"a → b +cut", weir("lab", "status").stdout)
    assert json.loads(weir("lab", "mend", "a-b", "--json").stdout)["carrier"] is True
    until(lambda: lab.run("a", ping, check=False, stdout=subprocess.DEVNULL).returncode == 0)
    assert "x is not a link of lab line: a-b" in weir("lab", "cut", "x").stderr


def test_what_is_under_way_when_a_cable_is_cut_is_lost(lab_of):
    lab = lab_of(LINE + 'delay = "60 s"\n')

    def forward():
        return lab.status()["links"][0]["forward"]

    with lab.popen("a", ["ping", "-c", "1", "-W", "200", "b"], stdout=subprocess.DEVNULL) as ping:
        until(lambda: forward()["delayed_packets"] == 1)
        lab.cut("a-b")
        until(lambda: forward()["delayed_packets"] == 0)
        ping.kill()
    assert forward()["dropped_down"] == 1


@pytest.mark.alone
def test_nothing_of_a_lab_shows_in_the_root_namespace(lab_of):
    def outside():
        links = subprocess.check_output(["ip", "-o", "link"], text=True)
        return links, Path("/proc/self/mountinfo").read_text(), Path("/etc/hosts").read_text()

    before = outside()
    lab_of(STAR)
    assert outside() == before


@pytest.mark.alone
def test_nothing_of_a_lab_shows_where_mounts_are_shared(lab_of):
    # As systemd has them: whatever is mounted in one namespace appears in all.
    lab_of(LINE).down()  # skips where there can be no lab
    program = (
        "import sys; from pathlib import Path; from weir.lab import Lab, parse;"
        "seen = lambda: Path('/proc/self/mountinfo').read_text(); before = seen();"
        "lab = Lab.up(parse(sys.argv[1])); during = seen(); lab.down(); print(before == during)"
    )
    shared = ["unshare", "--mount", "--propagation", "shared", sys.executable, "-c", program, LINE]
    assert subprocess.check_output(shared, text=True) == "True\n"


def test_two_labs_of_one_scenario_do_not_meet(lab_of):
    one, two = lab_of(LINE), lab_of(LINE)
    assert (one.name, two.name) == ("line", "line-2")
    assert one.address("b") == two.address("b")
    output(one, "a", "ping", "-c", "2", "-i", "0.01", "b")
    carried = [lab.status()["links"][0]["forward"]["packets_out"] for lab in (one, two)]
    assert carried == [2, 0]
    one.down()
    assert "1 received" in output(two, "a", "ping", "-c", "1", "b")


def test_wrong_names_are_refused(lab_of):
    lab = lab_of(LINE)
    for ask, says in (
        (lambda: lab.address("x"), "x is not a node of lab line; its nodes are a, b"),
        (lambda: lab.run("x", ["true"]), "x is not a node"),
        (lambda: lab.device("a", "x"), "x is not a link of lab line: a-b"),
        (lambda: Lab.attach("x"), "no lab called x is up; the labs that are up: line"),
        (lambda: Lab.up(parse(LINE), name="line"), "a lab called line is already up"),
    ):
        with pytest.raises(BadInput, match=says):
            ask()


def test_a_lab_that_cannot_come_up_leaves_nothing(lab_of, runtime_dir):
    with pytest.raises(Unsupported, match='"vegas" is not in this kernel; it has'):
        lab_of(LINE.replace("a = {}", 'a = { congestion = "vegas" }'))
    with pytest.raises(Unsupported, match="the kernel's controls have no options"):
        lab_of(LINE.replace("a = {}", 'a = { congestion = "cubic:hystart=off" }'))
    assert [path.name for path in runtime_dir.iterdir()] == ["lock"]


def inside(lab):
    """Processes that share a network namespace with the lab's nodes."""
    rooms = json.loads((lab.directory / "state.json").read_text())["nodes"].values()
    supervisor = supervisor_of(lab)
    inodes = {Path(f"/proc/{supervisor}/fd/{room['room']['net']}").stat().st_ino for room in rooms}
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "ns/net").stat().st_ino in inodes:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_the_supervisor_killed_leaves_nothing_after_the_next_command(lab_of, weir, runtime_dir):
    lab = lab_of(LINE + TALK)
    until(lambda: all(flow["state"] == "running" for flow in lab.status()["traffic"]))
    until(lambda: len(inside(lab)) == 3)  # iperf3 twice, the UDP sender
    background = inside(lab)
    with lab.popen("a", ["sleep", "1000"]) as sleeper:
        until(lambda: sleeper.pid in inside(lab))
        os.kill(supervisor_of(lab), signal.SIGKILL)
        # Its own children die with it; what others started waits for the next command.
        until(lambda: not any(map(alive, background)))
        assert sleeper.poll() is None
        done = weir("lab", "status")
        assert done.returncode == 2 and "no lab is up" in done.stderr
        assert sleeper.wait(30) == -signal.SIGKILL
    assert [path.name for path in runtime_dir.iterdir()] == ["lock"]


ON_ITS_WAY_IN = """
import re, sys
way_in = [open(word.partition("=")[2]) for word in sys.argv if re.match("--[a-z]+=/proc/", word)]
print(len(way_in), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def on_its_way_in(lab):
    """A program that has its way into a node open, and is held up before it goes in."""
    command = lab.command("a", ["true"])
    with subprocess.Popen(
        [command[0], "-c", ON_ITS_WAY_IN, *command[1:]],
        executable=sys.executable,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as entering:
        try:
            assert int(entering.stdout.readline()) >= 3
            yield entering
        finally:
            entering.kill()


@pytest.mark.parametrize("how", ["taken down", "killed"])
def test_who_is_still_on_the_way_in_does_not_outlive_the_lab(lab_of, weir, how):
    """A sender waited for half a minute in a network that no longer led anywhere."""
    lab, other = lab_of(LINE), lab_of(LINE)
    with on_its_way_in(other) as spared, on_its_way_in(lab) as entering:
        if how == "killed":
            os.kill(supervisor_of(lab), signal.SIGKILL)

            def cleared():
                assert weir("lab", "status", "--lab", other.name).returncode == 0
                return not lab.directory.exists()

            until(cleared)  # it may still be dying when it is first looked at
        else:
            lab.down()
        assert entering.wait(30) == -signal.SIGKILL
        assert spared.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root enters namespaces of its own")
def test_nobody_follows_into_a_room_that_is_closed():
    """Who came into a lab while what was inside was killed would be left over."""
    room = Room(*(os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("net", "mnt", "uts")))
    command = room.command(os.getpid(), ["true"], "/")
    assert subprocess.run(command, check=False).returncode == 0
    room.close()
    assert subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode != 0


def test_clearing_a_dead_lab_spares_the_living(lab_of, weir):
    dead, living = lab_of(LINE), lab_of(LINE)
    with living.popen("a", ["sleep", "1000"]) as sleeper:
        os.kill(supervisor_of(dead), signal.SIGKILL)

        def cleared():
            assert weir("lab", "status", "--json", "--lab", "line-2").returncode == 0
            return not dead.directory.exists()

        until(cleared)  # it may still be dying when it is first looked at
        assert sleeper.poll() is None
        assert living.status()["name"] == "line-2"
        sleeper.kill()


def test_a_lab_goes_down_with_the_process_it_was_made_for(lab_of, runtime_dir):
    program = (
        "import signal, sys; from weir.lab import Lab, parse;"
        "lab = Lab.up(parse(sys.argv[1])); lab.popen('a', ['sleep', '1000']);"
        "print(lab.name, flush=True); signal.pause()"
    )
    command = [sys.executable, "-c", program, LINE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout.readline() == "line\n"
            lab = Lab.attach("line")
            until(lambda: inside(lab))  # it has been started, and is on its way in
            processes = [supervisor_of(lab), *inside(lab)]
        finally:
            owner.kill()
    until(lambda: not any(map(alive, processes)))
    until(lambda: [path.name for path in runtime_dir.iterdir()] == ["lock"])


def test_killed_traffic_is_reported_and_the_lab_goes_on(lab_of):
    lab = lab_of(LINE + TALK)
    until(lambda: all(flow["state"] == "running" for flow in lab.status()["traffic"]))
    # iperf3's two ends and the sender of datagrams; the client may still be on its way in.
    until(lambda: len(inside(lab)) == 3)
    for pid in inside(lab):
        # A client whose server is gone may go by itself.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: {flow["state"] for flow in lab.status()["traffic"]} == {"failed"})
    assert "1 received" in output(lab, "a", "ping", "-c", "1", "b")


def test_a_lab_whose_name_another_has_taken_leaves_that_alone(lab_of):
    """Labs that are made side by side take the first name that is free, also that of a dead one."""
    one = lab_of(LINE)
    supervisor = supervisor_of(one)
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not alive(supervisor))
    other = lab_of(LINE)
    assert (one.name, other.name) == ("line", "line")
    begin_s = time.monotonic()
    one.down()
    # Each of two waits for the other's end would take fifteen seconds.
    assert time.monotonic() - begin_s < 15
    with pytest.raises(WeirError, match="lab line is down"):
        one.status()
    assert other.run("a", ["true"]).returncode == 0


def test_whoever_holds_its_socket_open_holds_no_lab_up(lab_of):
    """Each was waited for, one after the other, and traffic with it."""
    lab = lab_of(LINE)
    with contextlib.ExitStack() as stack:
        for _ in range(ASKING_MAX):
            held = stack.enter_context(socket.socket(socket.AF_UNIX))
            held.connect(str(lab.directory / "control"))
            held.sendall(b'{"half')
        assert lab.status()["name"] == lab.name
        held.settimeout(PATIENCE_S)
        assert held.recv(1) == b""  # It is not waited for without an end.
        assert lab.status()["name"] == lab.name


def test_a_lab_that_has_gone_down_says_so(lab_of):
    lab = lab_of(LINE)
    lab.down()
    with pytest.raises(WeirError, match="lab line is down"):
        lab.status()
    lab.down()


def test_the_command_line_from_up_to_down(lab_of, weir, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(LINE.replace('name = "line"', ""))
    up = weir("lab", "up", file, "--json")
    assert up.returncode == 0, up.stderr
    assert json.loads(up.stdout) == {
        "name": "mine",
        "addresses": {"a": "10.77.0.1", "b": "10.77.0.2"},
    }
    assert weir("lab", "exec", "b", "--", "sh", "-c", "exit 9").returncode == 9
    assert weir("lab", "exec", "a", "--", "ping", "-c", "1", "b").returncode == 0
    assert weir("lab", "exec", "a", "--", "no-such-program").returncode == 127
    nobody = weir("lab", "exec", "x", "--", "true")
    assert nobody.returncode == 2 and "x is not a node of lab mine" in nobody.stderr
    again = weir("lab", "up", file, "--name", "mine")
    assert again.returncode == 2 and "already up" in again.stderr
    status = json.loads(weir("lab", "status", "--json").stdout)
    assert status["links"][0]["forward"]["packets_out"] == 1
    shown = weir("lab", "status").stdout
    assert "a → b" in shown and "unlimited" in shown and "busy" in shown
    assert weir("lab", "down").stdout == "lab mine is down\n"
    assert weir("lab", "down").returncode == 2


def test_an_interactive_shell_has_its_terminal(lab_of):
    lab = lab_of(LINE)
    ours, theirs = pty.openpty()
    words = [WEIR, "lab", "exec", "--lab", lab.name, "a", "--", "bash", "--norc", "-i"]
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    seen = b""
    with subprocess.Popen(words, start_new_session=True, **streams) as shell:
        os.close(theirs)
        os.write(ours, b"tty; echo in-$(hostname)-$((40 + 2)); exit 3\n")
        with contextlib.suppress(OSError):  # EIO: the terminal's other side has gone
            while chunk := os.read(ours, 4096):
                seen += chunk
    os.close(ours)
    assert shell.returncode == 3
    assert b"/dev/pts/" in seen and b"in-a-42" in seen


def test_a_wrong_scenario_starts_nothing(weir, tmp_path, runtime_dir):
    file = tmp_path / "bad.toml"
    file.write_text(LINE + 'rate = "0 bit/s"\n')
    for command in ("up", "run"):
        done = weir("lab", command, file)
        assert done.returncode == 2
        assert done.stderr.startswith(f"weir: {file}:9: [[link]] 1: rate"), done.stderr
    missing = weir("lab", "up", tmp_path / "none.toml")
    assert missing.returncode == 2 and "No such file" in missing.stderr
    file.write_text(LINE)
    for name in ("a/b", "", "../x"):
        odd = weir("lab", "up", file, "--name", name)
        assert odd.returncode == 2 and f"{name!r} is not a name" in odd.stderr
    endless = weir("lab", "run", file)
    assert endless.returncode == 2 and "needs traffic that ends" in endless.stderr
    assert {path.name for path in runtime_dir.iterdir()} <= {"lock"}


@pytest.mark.parametrize("place", ["/proc/no", "/dev/null", "/dev/null/no"])
def test_a_folder_for_labs_that_cannot_be_is_named(weir, monkeypatch, tmp_path, place):
    monkeypatch.setenv("WEIR_RUNTIME_DIR", place)
    file = tmp_path / "line.toml"
    file.write_text(LINE)
    done = weir("lab", "up", file)
    assert done.returncode == 2
    assert done.stderr.startswith(f"weir: {place}: ") and done.stderr.count("\n") == 1


STATUS = b'{"do": "status"}\n'


@pytest.mark.parametrize("asked", [STATUS, b"[]\n", b'{"do": "restart"}\n', b"\xff\n", b""])
def test_a_lab_outlives_whoever_asks_and_goes_away_before_the_answer(lab_of, asked):
    lab = lab_of(LINE)
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(lab.directory / "control"))
            asking.sendall(asked)
    assert lab.status()["name"] == lab.name
