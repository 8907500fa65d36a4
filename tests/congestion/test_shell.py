"""The shell: what is typed, and what comes of it on this machine."""

import io
import re
import subprocess
from types import SimpleNamespace

import pytest
from rig import WEIR

from weir import kernel_controls
from weir.cli import main
from weir.congestion.shell import Shell
from weir.probe import Responder


class Recogniser:
    rate_hz = 20.0
    requests = 1
    seconds = (0.5, 1.0)

    def recognise(self, samples):
        self.samples = samples
        return SimpleNamespace(
            probabilities={"B1-C0": 0.9, "B0-C1": 0.1}, bbr=0.9, known=True, why="one BBR"
        )


def typed(*lines, to="127.0.0.1:7411", code=0):
    """What the shell answers; its exit code; the `weir` commands it ran."""
    ran, out = [], io.StringIO()

    def command(words):
        ran.append(words)
        return code

    shell = Shell(
        lambda request: Recogniser(), command, to, io.StringIO("\n".join(lines) + "\n"), out
    )
    shell.prompt = shell.intro = ""
    shell.cmdloop()
    return out.getvalue(), shell.exit_code, ran


def test_a_file_is_sent_as_it_was_set():
    _, code, ran = typed(
        "send run7.h5",
        "set fairness 0.5",
        "set steady 30 s",
        "set keys /etc/weir",
        "send 'my file' more data/",
        "set cca cubic",
        "set keys none",
        "set rate 5 Mbit/s",
        "send run7.h5",
        code=7,
    )
    assert ["|".join(words) for words in ran] == [
        "send|run7.h5|127.0.0.1:7411/|--cca|auto|--fairness|0.95",
        "send|my file|more|127.0.0.1:7411/data/|--cca|auto|--keys|/etc/weir|--fairness|0.5"
        "|--steady|30 s",
        "send|run7.h5|127.0.0.1:7411/|--cca|cubic|--insecure|--rate|5 Mbit/s",
    ]
    assert code == 7


def test_probing_tells_who_is_there_and_what_suits_them():
    out, code, _ = typed("probe 1")
    assert code == 0, out
    lines = dict(line.split(None, 1) for line in out.splitlines() if line.strip())
    assert lines["looks"] == "like B1-C0 0.90  B0-C1 0.10"
    assert lines["BBR"] == "0.90"
    assert lines["rtt"].endswith("ms")
    assert len(lines["rtt"].split()[0]) == 20  # a block for each sample
    assert lines["choice"].split(":")[0] in kernel_controls.offered()


def test_probing_tells_of_what_kind_they_are_where_that_is_said(monkeypatch):
    heard = Recogniser.recognise

    def with_kind(self, samples):
        found = heard(self, samples)
        found.kind, found.kinds = "bbr3", {"bbr3": 0.97, "app-limited": 0.01}
        return found

    assert "\nkind " not in typed("probe 1")[0]
    monkeypatch.setattr(Recogniser, "recognise", with_kind)
    out, code, _ = typed("probe 1")
    assert code == 0, out
    assert ["kind", "bbr3", "0.97"] in [line.split() for line in out.splitlines()]


def test_how_it_is_probed_goes_with_the_file():
    _, _, ran = typed(
        "set pattern c5-b5-c5-s5",
        "set neighbours 3",
        "set window 10 s",
        "set rule worth",
        "set log /var/log/ops",
        "set label b1c0-s0",
        "send run7.h5",
    )
    assert ran[0][4:] == [
        *["auto", "--fairness", "0.95", "--ops-log", "/var/log/ops"],
        *["--ops-label", "b1c0-s0", "--pattern", "c5-b5-c5-s5", "--neighbours", "3"],
        *["--window", "10 s", "--rule", "worth"],
    ]


def test_active_probing_and_running_need_a_sink_there():
    with Responder(0) as sink:
        out, code, _ = typed(f"set sink {sink.port}", "set pattern C1", "probe 1", "run 0.5")
    assert code == 0, out
    assert "looks like B1-C0 0.90" in out
    assert re.search(r"\w+ +\d+\.\d Mbit/s: \d{6,} bytes confirmed in 0\.5 s", out)
    out, code, _ = typed(f"set sink {sink.port}", "probe active 1", "run 0.5")
    assert out.count(f"start it there: weir probe --serve {sink.port}") == 2
    assert code == 6


def test_what_is_set_is_shown():
    out, _, _ = typed("set to dtn7:1", "set fairness 0.25", "show")
    lines = [line.split() for line in out.splitlines() if line]
    assert ["to", "dtn7:1"] in lines
    assert ["fairness", "0.25"] in lines
    *_, offered, patterns = lines
    assert offered[0] == "offered"
    assert f"[{kernel_controls.default()}]" in offered
    assert patterns == ["patterns", "C5-B5-C5-S5", "S5-C5-S5-B5"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("fly", "'fly' is not a command"),
        ("set", "there are to, cca"),
        ("set speed 1", "set speed: there are to, cca"),
        ("set cca vegas2000", "this host offers auto"),
        ("set fairness 2", "0 (own goodput only) to 1"),
        ("set fairness much", "a number is needed"),
        ("set pattern C5-X5", "segment 2 'X5': X is not a code"),
        ("set neighbours 1", "neighbours is for classifier k-nn"),
        ("set classifier svm", "there are weir and k-nn"),
        ("set sink 0", "a port is needed"),
        ("set udp 0", "a port is needed"),
        ("set steady 0", "has no unit"),
        ("run", "a number is needed"),
        ("run 0", "above 0 and up to 3600 s"),
        ("probe passive 7", "the classifier needs 0.5, 1 s"),
        ("probe 7", "the classifier needs 0.5, 1 s"),
        ("probe soon", "a number is needed"),
        ("send", "nothing to send"),
        ("send 'half", "No closing quotation"),
    ],
)
def test_what_cannot_be_is_told_and_the_shell_goes_on(line, told):
    out, code, ran = typed(line, "show")
    assert told in out
    assert "offered" in out
    assert (code, ran) == (2, [])


def test_what_the_command_refuses_does_not_end_the_shell(capsys):
    def refused(words):
        return main(words)  # of an option that there is none, argparse ends the program

    out = io.StringIO()
    lines = io.StringIO("set fairness 1/2\nsend x --no-such-option\nshow\n")
    shell = Shell(lambda request: Recogniser(), refused, "127.0.0.1:9", lines, out)
    shell.prompt = shell.intro = ""
    shell.cmdloop()
    assert shell.exit_code == 2
    assert "unrecognized arguments: --no-such-option" in capsys.readouterr().err
    assert ["fairness", "0.5"] in [line.split() for line in out.getvalue().splitlines()]


def test_it_is_probed_by_udp_where_that_is_set():
    with Responder(0) as responder:
        out, code, _ = typed(f"set udp {responder.port}", "probe 1")
    assert code == 0, out
    assert "looks like B1-C0 0.90" in out
    out, code, _ = typed("set udp 9", "probe 1")
    assert "is weir probe --serve 9 running there" in out


def test_without_a_server_nothing_is_sent_or_probed():
    out, code, ran = typed("probe", "send x", "", to="")
    assert out.count("set to HOST:PORT") == 2
    assert (code, ran) == (2, [])


def test_one_command_is_carried_out_as_in_a_script(capsys):
    assert main(["ops", "shell", "127.0.0.1:7411", "--", "show"]) == 0
    assert "127.0.0.1:7411" in capsys.readouterr().out
    assert main(["ops", "shell", "127.0.0.1:7411", "--", "probe", "7"]) == 2
    assert "the classifier needs 5, 10, 20 s" in capsys.readouterr().out


def test_the_command_reads_what_is_typed_and_ends_with_it():
    done = subprocess.run(
        [WEIR, "ops", "shell", "127.0.0.1:7411"],
        input="help\nshow\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "weir ops> " in done.stdout
    assert "probe  quit  run  send  set  show" in done.stdout
    assert "127.0.0.1:7411" in done.stdout
