"""Files that no command of `weir observe` should stumble over: each is one message, and its end."""

import functools
import gzip
import itertools
import json
import os
import struct
import subprocess
import sys
import threading
import wave

import pytest
from capture_rig import (
    block,
    enhanced,
    interface,
    ip,
    pcap,
    raw,
    section,
    tcp,
    udp,
    whole,
)

from weir import files
from weir.cli import main
from weir.errors import BadInput
from weir.observe.desktop import capture, speech
from weir.observe.infiniband import counter_files, dump, plan, records, roles

S = 10**9
TASK = [
    raw(S, udp(b"weir-start one")),
    raw(S + S // 10, tcp(1000, 0)),
    raw(S + S // 5, udp(b"weir-end")),
    raw(S + S // 2, tcp(1000, 1000)),
]
GIGABYTES = 10 << 30


def pcapng(packets, options=b""):
    return (
        section()
        + block(0x0BAD, bytes(8))  # of no kind that is known: passed by
        + interface(options=options)
        + b"".join(enhanced(at // 1000, kept, length) for at, kept, length in packets)
    )


def sparse(path, content):
    path.write_bytes(content)
    os.truncate(path, GIGABYTES)
    return path


def told(capsys, code, *arguments):
    """What a command says on its standard error, which is one line of an error."""
    assert main(["observe", *map(str, arguments)]) == code
    said = capsys.readouterr()
    assert said.err.startswith("weir: ")
    assert said.err.count("\n") == 1
    assert said.err.isascii() or said.err.strip().isprintable()
    return said.err


# --- captures ---


@pytest.mark.parametrize("content", [pcap(TASK), pcapng(TASK)], ids=["pcap", "pcapng"])
def test_a_capture_may_end_anywhere(tmp_path, content):
    """What came before is there, and the end is told unless it is between two packets."""
    path = tmp_path / "cut"
    between = 0
    for end in range(len(content)):
        path.write_bytes(content[:end])
        try:
            found = capture.read(path)
        except BadInput as error:
            assert "\n" not in str(error)
            continue
        between += not found.cut
        assert len(found.packets) in (1, 2, 3, 4)
    assert between == 3, "cut between packets it is whole"


@pytest.mark.parametrize("value", [0, 0xFF])
@pytest.mark.parametrize("content", [pcap(TASK), pcapng(TASK)], ids=["pcap", "pcapng"])
def test_no_byte_that_is_another_ends_in_a_traceback(tmp_path, content, value):
    path = tmp_path / "damaged"
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
        try:
            found = capture.read(path)
        except BadInput:
            continue
        assert found.packets


TSRESOL = struct.pack("<HHB3x", 9, 1, 0x80 | 20)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (struct.pack("<II", 6, 0), "a block of 0 bytes: the file is damaged"),
        (struct.pack("<II", 6, 0xFFFFFFFF), "a block of 4294967295 bytes"),
        (struct.pack("<II", 0x0BAD, 0xFFFFFFFF), "ends in the middle"),
        (struct.pack("<II", 0x0BAD, 4), "a block of 4 bytes"),
        (block(6, b""), "a packet's block of 12 bytes"),
        (block(6, struct.pack("<IIIII", 7, 0, 1, 0, 60)), "a packet of no interface"),
        (block(6, struct.pack("<IIIII", 0, 0, 1, 900, 900)), "a packet of 900 bytes"),
        (block(6, struct.pack("<IIIII", 0, 0, 1, 0, 0)), "a packet of 0 bytes"),
        (block(1, b""), "an interface's block of 12 bytes"),
        (interface(options=struct.pack("<HH", 9, 1)), "an option of 1 bytes that runs past"),
        (interface(options=struct.pack("<HH", 14, 8) + b"1234"), "an option of 8 bytes"),
        (struct.pack("<III", 0x0A0D0D0A, 28, 7), "a section of no byte order"),
    ],
)
def test_what_stands_before_the_damage_is_shown_as_a_part(tmp_path, capsys, damage, words):
    path = tmp_path / "damaged.pcapng"
    path.write_bytes(pcapng(TASK) + damage)
    assert main(["observe", "desktop", "dut", str(path)]) == 0
    said = capsys.readouterr().out
    assert "partial: " in said
    assert words in said
    assert "0.500 s" in said
    assert main(["observe", "desktop", "dut", str(path), "--json"]) == 0
    assert words in json.loads(capsys.readouterr().out)["partial"]


def test_times_of_another_resolution_are_seconds_all_the_same(tmp_path):
    path = tmp_path / "fine.pcapng"
    content = section() + interface(options=TSRESOL)
    for at_ns, kept, length in TASK:
        content += enhanced((at_ns << 20) // S, kept, length)
    path.write_bytes(content)
    for one, (at_ns, *_) in zip(capture.read(path).packets, TASK, strict=True):
        assert abs(one.at_ns - at_ns) < 1000


def test_a_clock_that_was_set_back_is_told(tmp_path, capsys):
    path = tmp_path / "back.pcap"
    path.write_bytes(pcap([*TASK, raw(S // 4, tcp(1000, 3000))]))
    assert main(["observe", "desktop", "dut", str(path)]) == 0
    assert "note: the clock went back by 1.250 s" in capsys.readouterr().out
    # Interfaces and processors hand on their packets a little out of order.
    path.write_bytes(pcap([TASK[0], TASK[2], TASK[1], TASK[3]]))
    assert not capture.read(path).warnings


def test_a_capture_of_too_few_bytes_does_not_pass_repeats_off_as_fresh(tmp_path, capsys):
    path = tmp_path / "snapped.pcap"
    updates = [(at_ns, kept[:24], size) for at_ns, kept, size in TASK if kept[9] == 6]
    path.write_bytes(pcap([TASK[0], *updates]))
    assert main(["observe", "desktop", "dut", str(path)]) == 0
    said = f"of 2 packets of {path} TCP's header was not kept"
    assert f"note: {said}" in capsys.readouterr().out.replace("\n", " ")
    path.write_bytes(pcap(TASK))
    assert not capture.read(path).warnings


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (gzip.compress(pcap(TASK)), "compressed by gzip: unpack it first"),
        (b"\x28\xb5\x2f\xfd" + bytes(60), "compressed by zstd"),
        (pcap(TASK)[:20], "ends in the middle"),
        (pcap([(S, tcp(1)[:14], 60)]), "no whole IP header was kept"),
        (pcap(TASK, link=195), "link type 195"),
        (pcap([raw(S, ip(bytes(900), 50))]), "a tunnel (ESP (IPsec)), in which markers cannot"),
        (pcap([(S, udp(b"weir-start")[:28], 38)]), "has not kept the data of its markers"),
        (pcap([(S, udp(b"weir-start")[:24], 38)]), "has not kept the data of its markers"),
        (pcap([(S, b"\x41" + udp(b"weir-start")[1:], 38)]), "no whole IP header"),
        (section() + enhanced(1, tcp(1), whole(tcp(1))), "a packet of no interface"),
    ],
)
def test_a_capture_of_no_use_says_why(tmp_path, capsys, content, words):
    path = tmp_path / "some.pcap"
    path.write_bytes(content)
    assert words in told(capsys, 2, "desktop", "dut", path)


FOR_ALL = [
    ("desktop", "dut", "FILE"),
    ("desktop", "calibrate", "FILE"),
    ("desktop", "video", "FILE", "FILE", "--fps", "24"),
    ("desktop", "speech", "FILE", "FILE"),
    ("desktop", "ratings", "FILE"),
    ("fabric", "classify", "FILE"),
    ("fabric", "analyse", "FILE"),
]


@pytest.mark.parametrize("command", FOR_ALL, ids=lambda one: one[1])
def test_what_is_no_file_of_the_kind_is_one_message(tmp_path, capsys, monkeypatch, command):
    monkeypatch.setattr(files, "PATIENCE_S", 0.02)
    fifo, binary, empty = tmp_path / "fifo", tmp_path / "binary", tmp_path / "empty"
    os.mkfifo(fifo)
    binary.write_bytes(bytes(range(256)) * 40)
    empty.touch()
    for place, words in (
        (tmp_path, "Is a directory"),
        (tmp_path / "none", "No such file"),
        (fifo, "is a FIFO, and within 0.02 s nobody wrote to it"),
        (sparse(tmp_path / "sparse", b""), ""),
        (binary, ""),
        (empty, ""),
    ):
        assert words in told(capsys, 2, *(place if one == "FILE" else one for one in command))


@pytest.mark.parametrize("content", [pcap(TASK), pcapng(TASK)], ids=["pcap", "pcapng"])
def test_gigabytes_that_were_never_written_end_a_capture(tmp_path, content):
    found = capture.read(sparse(tmp_path / "sparse", content))
    assert len(found.packets) == 4
    assert "damaged" in found.cut


def test_a_fifo_is_read_once_somebody_opens_it(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    # Opened to be written only, it waits for its reader.
    writer = threading.Thread(target=functools.partial(path.write_bytes, pcap(TASK)))
    writer.start()
    assert len(capture.read(path).packets) == 4
    writer.join()


def test_who_has_a_fifo_open_may_take_their_time(tmp_path, monkeypatch):
    path, is_read, begin = tmp_path / "fifo", threading.Event(), os.set_blocking
    os.mkfifo(path)
    monkeypatch.setattr(files, "PATIENCE_S", 0.0)
    monkeypatch.setattr(files.os, "set_blocking", lambda *told: (begin(*told), is_read.set()))
    writer = os.fdopen(os.open(path, os.O_RDWR), "wb", buffering=0)

    def write():
        is_read.wait(60)
        with writer:
            writer.write(pcap(TASK))

    thread = threading.Thread(target=write)
    thread.start()
    assert len(capture.read(path).packets) == 4
    thread.join()


def test_what_comes_by_a_shells_pipe_is_read(tmp_path):
    (tmp_path / "some.pcap.gz").write_bytes(gzip.compress(pcap(TASK)))
    line = f"zcat some.pcap.gz | {sys.executable} -m weir.cli observe desktop dut /dev/stdin"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    assert "0.500 s" in done.stdout


# --- ratings, tasks, speech ---

HEAD = "subject,activity,loss_percent,rating\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("subject,activity,rating\na,x,3\n", "no column loss_percent"),
        (HEAD + "a,x,0,nan\n", ":2: a rating of nan"),
        (HEAD + "a,x,inf,3\n", ":2: a loss of inf"),
        (HEAD + "a,x,0,5.01\n", ":2: a rating of 5.01"),
        (HEAD + "a,x,0\n", ":2: could not convert"),
        (HEAD + ",x,0,3\n", ":2: no subject"),
        (HEAD + "a,x,0," + "9" * 100_000 + "x\n", ":2: could not convert"),
        (HEAD + "a,x,0,3\na,x,0,4\na,x,3,2\na,x,3,1\n", "x: one person rated"),
        (HEAD + "a,x,0,3\nb,x,0,4\n", "x: ratings at one loss only"),
        (HEAD + "".join(f"{who},x,{loss},3\n" for who in "abc" for loss in (0, 5)), "alike"),
        (HEAD + "a,x\x1b[2J,0,3\nb,x\x1b[2J,0,4\n", "x\\x1b[2J: ratings at one loss only"),
    ],
)
def test_ratings_of_no_use_say_why(tmp_path, capsys, text, words):
    pytest.importorskip("statsmodels", reason="statsmodels is not installed: extra observe")
    path = tmp_path / "ratings.csv"
    path.write_text(text)
    assert words in told(capsys, 2, "desktop", "ratings", path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("begin_s\nnan\n", ":2: nan is no time"),
        ("begin_s\n" + "9" * 5000 + "\n", ":2: 999"),
        ("begin_s,end_s\n5,4\n", ":2: a task that ends before it begins"),
        ("begin_s\n\x1b[2J\n", "\\x1b[2J is no time"),
        ("begin_s\n²\n", "² is no time"),
    ],
)
def test_tasks_of_no_use_say_why(tmp_path, capsys, text, words):
    path, tasks = tmp_path / "some.pcap", tmp_path / "tasks.csv"
    path.write_bytes(pcap(TASK))
    tasks.write_text(text)
    said = told(capsys, 2, "desktop", "dut", path, "--tasks", tasks)
    assert words in said
    assert len(said) < 400


def wav(path, samples, rate=16_000, width=2, channels=1, cut=0):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(bytes(samples * width * channels))
    if cut:
        os.truncate(path, path.stat().st_size - cut)
    return path


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"samples": 16_000}, "nothing was said"),
        ({"samples": 16_000, "cut": 1}, "is cut: it has 15999 of 16000 samples"),
        ({"samples": 16_000, "channels": 2, "cut": 3}, "is cut: it has 15999 of 16000 samples"),
        ({"samples": 16_000, "width": 1}, "samples of 8 bits"),
        ({"samples": 16_000, "rate": 4000}, "4000 samples a second"),
        ({"samples": 3_000_001}, "s of speech: compare it sentence by sentence"),
        ({"samples": 0}, "too short"),
    ],
)
def test_speech_of_no_use_says_why(tmp_path, capsys, how, words):
    path = wav(tmp_path / "some.wav", **how)
    assert words in told(capsys, 2, "desktop", "speech", path, path)


def test_no_cut_of_speech_ends_in_a_traceback(tmp_path):
    path = wav(tmp_path / "some.wav", 20, channels=2)
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(BadInput):
            speech.load(path)


# --- fabrics and records ---


def switch(number, ports, lid=None, name="s"):
    about = f'# "{name}" base port 0 lid {number if lid is None else lid} lmc 0'
    return f'Switch 36 "S-{number}" {about}\n' + "".join(ports)


def host(number, ports):
    return f'Ca 1 "H-{number}" # "h"\n' + "".join(ports)


def cable(port, far, far_port, about="# lid 1 4xFDR"):
    return f'[{port}] "{far}"[{far_port}] {about}\n'


PAIR = switch(1, [cable(1, "H-1", 1)]) + host(1, [cable(1, "S-1", 1)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (switch(1, [cable(1, "S-1", 2), cable(2, "S-1", 1)]), "a loop"),
        (PAIR + PAIR, "is there a second time"),
        (PAIR + switch(2, [], lid=1), "have one LID, 1"),
        (PAIR + switch(2, [], lid=70_000), "LID 70000"),
        (switch(1, [cable(37, "H-1", 1)]), "port 37, where s has 36 ports"),
        ('Toaster 1 "T-1"\n', "'Toaster' is a kind of device that is not known"),
        (f'Switch {"9" * 5000} "S-1"\n', "neither a node nor a port"),
        (f'Switch 36 "{"S" * 5_000_000}"\n' * 2, "is there a second time"),
        ("x" * 5_000_000 + "\n", "neither a node nor a port: xxx"),
        (switch(1, [cable("9" * 5000, "H-1", 1)]), "this is no port"),
        (switch(1, [cable(1, "H-9", 1)], name="\x1b[2Jroot"), "port 1 of \\x1b[2Jroot leads to"),
        (switch(1, []), "no host is attached"),
        (PAIR[:-1], "is cut"),
        (PAIR.replace("\n", "\r"), "is cut"),
    ],
)
def test_a_dump_of_no_use_says_why(tmp_path, capsys, text, words):
    path = tmp_path / "some.net"
    path.write_text(text)
    said = told(capsys, 2, "fabric", "classify", path)
    assert words in said
    assert len(said) < 600


def test_a_name_is_only_a_name(tmp_path, capsys):
    """Whoever names a host or switch makes neither lines, nor LIDs, nor speeds of it."""
    odd = 'a\x85b\u2028c \x1b]0;x\x07 lid 9 12xXDR" lid 8 1xSDR'
    path = tmp_path / "odd.net"
    ports = [cable(1, "H-1", 1, f'# "{odd}" lid 2 4xFDR')]
    text = switch(1, ports, lid=5, name=odd) + host(1, [cable(1, "S-1", 1)])
    path.write_bytes(text.encode() + b'Ca 1 "H-2" # "\xff\xfe"\n')
    node = dump.load(path)["S-1"]
    assert node.lid == 5
    assert node.cables[1].speed == dump.Speed(4, "FDR")
    assert main(["observe", "fabric", "classify", str(path)]) == 0
    assert capsys.readouterr().out.replace("\n", "").isprintable()


def test_a_chain_of_switches_is_classified_in_time_that_grows_with_it():
    """Each level has one switch: to look at all others for each would take minutes."""
    build = plan.Builder()
    chain = [build.switch(f"s{number}", 4) for number in range(8_000)]
    build.host("h", chain[0])
    for one, other in itertools.pairwise(chain):
        build.cable(one, other)
    found = roles.classified(build.fabric)
    assert [found.height[node.id] for node in chain[:-9]] == list(range(1, len(chain) - 8))


GOOD = "round_ns,lid,port,asked_ns,took_ns,wait_ticks\n1,7,3,100,5,2\n1,7,3,200,5,3\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.splitlines()[0] + "\n", "no records are in it"),
        (GOOD.splitlines()[0] + "\n\n\n", "no records are in it"),
        (GOOD + "1,7,3,-100,5,3\n", "asked_ns of -100"),
        (GOOD + f"1,7,3,{2**62},5,3\n", "asked_ns of 4611686018427387904"),
        (GOOD + f"1,7,3,{2**80},5,3\n", "after line 1"),
        (GOOD + "1,70000,3,300,5,3\n", "lid 70000: 0 to 65535"),
        (GOOD + "1,7,-3,300,5,3\n", "port -3: 0 to 255"),
        (GOOD + "1,7,3,300,5,nan\n", "after line 1"),
        (GOOD + "1,7,3,300,5," + "9" * 5000 + "\n", "longer than any record"),
        (GOOD.replace("ticks\n", "ticks,tick_ns\n").replace(",2\n", ",2,-1\n"), "after line 1"),
        ("lid,port,asked_ns,took_ns,wait_ticks,tick_ns,round_ns\n7,3,1,5,2,-1,1\n", "a tick of -1"),
        ("x" * 9000, "columns"),
        (GOOD, "the records do not say how long a tick takes"),
    ],
)
def test_records_of_no_use_say_why(tmp_path, capsys, text, words):
    path = tmp_path / "some.csv"
    path.write_text(text)
    said = told(capsys, 2, "fabric", "analyse", path)
    assert words in said
    assert len(said) < 600


def test_a_round_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "MOST_QUERIES", 10)
    path = tmp_path / "some.csv"
    path.write_text(GOOD + "".join(f"1,7,3,{at},5,3\n" for at in range(300, 400)))
    with pytest.raises(BadInput, match="more than 10 records of one port follow one another"):
        list(records.read(path, 4))


def test_records_that_were_cut_are_analysed_as_a_part(tmp_path, capsys):
    path = tmp_path / "cut.csv"
    path.write_text(GOOD + "1,7,3,300")
    assert main(["observe", "fabric", "analyse", str(path), "--tick-ns", "1", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["partial"] is True
    assert json.loads(said.out)["intervals_waiting"] == 1
    assert "partial: " in said.err
    assert "line 4 is cut" in said.err


def test_records_are_not_completed_over_themselves(tmp_path, capsys):
    drawn, path, link = tmp_path / "some.net", tmp_path / "some.csv", tmp_path / "link.csv"
    drawn.write_text(PAIR)
    path.write_text(GOOD)
    link.symlink_to(path)
    for out in (path, link):
        said = told(capsys, 2, "fabric", "classify", drawn, "--records", path, "--out", out)
        assert "is --records itself" in said
    assert path.read_text() == GOOD


def test_records_that_are_completed_in_part_have_no_name(tmp_path, capsys):
    """The good ones before the damage took the place of what was there before."""
    drawn, path, out = tmp_path / "some.net", tmp_path / "some.csv", tmp_path / "out.csv"
    drawn.write_text(PAIR)
    path.write_text(GOOD + "2,1,1,soon,0,0\n")
    out.write_text("of before")
    there = sorted(tmp_path.iterdir())
    told(capsys, 2, "fabric", "classify", drawn, "--records", path, "--out", out)
    assert (out.read_text(), sorted(tmp_path.iterdir())) == ("of before", there)
    path.write_text(GOOD)
    assert (
        main(["observe", "fabric", "classify", *map(str, [drawn, "--records", path, "--out", out])])
        == 0
    )
    assert out.read_text().startswith("kind,way,")


# --- counter files ---


@pytest.mark.parametrize(
    ("content", "flag"),
    [
        ("", "missing"),
        ("many\n", "unsupported"),
        ("-5\n", "unsupported"),
        ("1.5\n", "unsupported"),
        (f"{2**64}\n", "clamped"),
        ("9" * 100_000, "clamped"),
        ("\x1b[2J", "unsupported"),
        (b"\xff\n", "missing"),
        (None, "missing"),
        ("directory", "missing"),
        ("fifo", "missing"),
    ],
)
def test_a_counter_that_is_none_has_no_value(tmp_path, content, flag):
    folder = tmp_path / "mlx5_0/ports/1"
    (folder / "counters").mkdir(parents=True)
    for name, text in (
        ("state", "4: ACTIVE"),
        ("link_layer", "InfiniBand"),
        ("lid", "9" * 40),
        ("rate", f"56 Gb/sec ({'9' * 400}X FDR)"),
    ):
        (folder / name).write_text(text)
    counter = folder / "counters/port_xmit_wait"
    counter.write_text("7\n")
    found = counter_files.CounterFiles(tmp_path)
    (port,) = found.ports()
    assert (port.lid, port.speed) == (0, None)
    (before,) = found.ask([port])
    assert not before.flags & records.AGAINST
    counter.unlink()
    if content == "directory":
        counter.mkdir()
    elif content == "fifo":
        os.mkfifo(counter)
    elif content is not None:
        counter.write_bytes(content if isinstance(content, bytes) else content.encode())
    (after,) = found.ask([port])
    assert after.flags & records.AGAINST == {flag}


# --- who reads what is printed ---


@pytest.mark.parametrize("command", ["plan", "classify"])
def test_a_full_disk_and_a_reader_that_goes_away(tmp_path, command):
    path = tmp_path / "some.net"
    path.write_text(dump.text_of(plan.cluster(plan.SMALL)))
    line = f"{sys.executable} -m weir.cli observe fabric {command}"
    line += f" {path}" if command == "classify" else ""
    for shell, code, said in (
        (f"{line} > /dev/full", 1, "No space left"),
        (f"{line} | true; exit ${{PIPESTATUS[0]}}", 141, ""),
    ):
        done = subprocess.run(
            ["bash", "-c", shell], capture_output=True, text=True, check=False, timeout=120
        )
        assert (done.returncode, said in done.stderr) == (code, True)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("classify", "NET", "--records", "CSV"), "No space left"),
        (("sweep", "--files", "--every", "0"), "No space left"),
        (("rounds", "--files", "--every", "0", "--window", "9", "--gap", "0"), "No space left"),
    ],
)
def test_records_that_a_full_disk_ends_say_so(tmp_path, capsys, monkeypatch, arguments, words):
    net, path = tmp_path / "some.net", tmp_path / "some.csv"
    net.write_text(PAIR)
    path.write_text(GOOD)
    folder = tmp_path / "mlx5_0/ports/1"
    (folder / "counters").mkdir(parents=True)
    (folder / "counters/port_xmit_wait").write_text("7\n")
    monkeypatch.setattr(counter_files, "ROOT", tmp_path)
    named = {"NET": net, "CSV": path}
    asked = [named.get(one, one) for one in arguments]
    assert words in told(capsys, 2, "fabric", *asked, "--out", "/dev/full")
