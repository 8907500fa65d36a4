"""How ports are asked: rounds in virtual time, sweeps, this host's counter files, the commands."""

import json
import math
from collections import Counter

import pytest

from weir.cli import main
from weir.errors import BadInput, Unsupported
from weir.observe.infiniband import (
    asking,
    collect,
    counter_files,
    dump,
    mad,
    plan,
    records,
    report,
    roles,
    umad,
    waiting,
)
from weir.observe.infiniband.asking import Answer, Port
from weir.observe.infiniband.records import Flag

MS = 1_000_000


class Mock:
    """A fabric whose ports wait a quarter of the time, and which takes 25 ms for an answer."""

    def __init__(self, took_ns=25 * MS, tick=20.0, flags=None):
        self.now, self.took, self.tick = 10**18, took_ns, tick
        self.flags = flags or {}
        self.zero, self.log = {}, []

    def now_ns(self):
        return self.now

    def sleep(self, seconds):
        self.now += round(seconds * 1e9)

    def ask(self, ports):
        answers = []
        for port in ports:
            key = (port.lid, port.number)
            self.log.append(("ask", *key))
            middle = self.now + self.took // 2
            ticks = (middle - self.zero.get(key, 10**18)) / 4 / self.tick
            flags = frozenset(self.flags.get(key, ()))
            answers.append(Answer(self.now, self.took, int(ticks), self.tick, flags))
            self.now += self.took
        return answers

    def reset(self, port):
        self.log.append(("reset", port.lid, port.number))
        self.zero[port.lid, port.number] = self.now
        self.now += self.took
        return True


@pytest.fixture(scope="module")
def cluster():
    return plan.cluster()


def test_a_window_of_the_works_rounds(cluster):
    fabric = Mock()
    ports = asking.ports_of(cluster, collect.disjoint(range(1, 694))[0])
    begin = fabric.now
    found = list(collect.random_rounds(fabric, ports, seed=1))
    # 100 queries of 100 ms and 25 ms: 96 rounds in 20 minutes (000-spec 2.5), less the resets.
    assert len(found) == 96
    assert (fabric.now - begin) / 1e9 == pytest.approx(1200, abs=12.6)
    assert [kind for kind, *_ in fabric.log] == (["reset"] + ["ask"] * 100) * 96
    for rows in found:
        assert len({(one["lid"], one["port"], one["round_ns"]) for one in rows}) == 1
        assert waiting.intervals(rows).fitf == pytest.approx([0.25] * 99, abs=1e-5)
    assert len({int(rows["lid"][0]) for rows in found}) > 60, "with replacement"
    again = list(collect.random_rounds(Mock(), ports, seed=1))
    assert [rows["lid"][0] for rows in again] == [rows["lid"][0] for rows in found]


def test_instances_share_the_switches():
    sets = collect.disjoint(range(1, 694))
    assert sorted(one for part in sets for one in part) == list(range(1, 694))
    assert {len(part) for part in sets} == {115, 116}
    with pytest.raises(BadInput, match="7 instances for 3 switches"):
        collect.disjoint([1, 2, 3], 7)


def test_rounds_draw_only_ports_that_are_up(cluster):
    spine = next(node for node in cluster.values() if node.name == "spine-1-1")
    ports = asking.ports_of(cluster, [spine.lid])
    assert Counter(port.is_up for port in ports) == {True: 29, False: 7}
    how = collect.Rounds(2, 0.0, 60.0)
    drawn = [int(rows["port"][0]) for rows in collect.random_rounds(Mock(), ports, 3, how)]
    assert set(drawn) == set(range(1, 30))
    with pytest.raises(BadInput, match="no port of any"):
        next(collect.random_rounds(Mock(), [port for port in ports if not port.is_up], 1))
    with pytest.raises(BadInput, match="two queries or more"):
        collect.Rounds(queries=1)


def test_counts_of_rounds_are_those_of_switches_and_ports(cluster):
    """Table 2.1's law: a switch is drawn, then its port; so ToR ports up and down alike."""
    found = roles.classified(cluster, ["Glade", "DAV"])
    names = asking.Names(cluster, found)
    fabric = Mock(took_ns=MS)
    how = collect.Rounds(2, 0.0, 40.0)
    rounds = collect.random_rounds(fabric, asking.ports_of(cluster), 1, how, names)
    counts = Counter((str(rows["kind"][0]), str(rows["way"][0])) for rows in rounds)
    total = sum(counts.values())
    assert total > 10_000
    for category, share in {
        ("ToR", "up"): 252 / 693 / 2,
        ("ToR", "down"): 252 / 693 / 2,
        ("Leaf", "up"): 261 / 693 / 2,
        ("Spine", "down"): 162 / 693,
        ("GladeLeaf", "up"): (3 * 12 / 24 + 12 / 30) / 693,
    }.items():
        spread = 4 * math.sqrt(share * (1 - share) / total)
        assert counts[category] / total == pytest.approx(share, abs=spread)


def test_sweeps_flag_what_has_no_value_and_look_at_the_fabric_again_once():
    fabric = plan.fat_tree(2, 1, 2)
    ports = asking.ports_of(fabric)
    first = ports[0]
    mock = Mock(flags={(first.lid, first.number): {Flag.MISSING}})
    looked = []

    def renewed(missing):
        looked.append(missing)
        return ports[1:] if missing else None

    found = list(collect.sweeps(mock, ports, 2, 1.0, renewed=renewed))
    assert looked == [True, False]
    assert [len(rows) for rows in found] == [len(ports), len(ports) - 1]
    waited = report.waited(found, ports)
    assert len(waited) == len(ports) - 1, "asked once, a port says nothing"
    assert all(one.fitf == pytest.approx(0.25, abs=1e-4) for one in waited)
    assert waited[0].lost_bps == pytest.approx(0.25 * 54.545e9, rel=1e-3)


def test_a_tick_is_told_by_the_port_in_units_of_its_link():
    fdr, hdr = dump.Speed(4, "FDR"), dump.Speed(4, "HDR")
    # NVIDIA's table: SwitchX counts 32 bytes a lane, Quantum 8 bytes of the whole port.
    assert asking.tick_ns(31, fdr) == pytest.approx(32 * 8 / 13.636e9 * 1e9, rel=1e-4)
    assert asking.tick_ns(7, hdr) == pytest.approx(8 * 8 / 200e9 * 1e9)
    assert asking.tick_ns(0, dump.Speed(1, "SDR")) == 4
    assert asking.tick_ns(None, fdr) == asking.tick_ns(31, fdr)
    assert math.isnan(asking.tick_ns(31, None))


def test_a_query_is_the_datagram_of_the_specification():
    asked = mad.request(7, mad.PORT_COUNTERS, 3)
    assert len(asked) == 256
    assert asked[:4] == bytes([1, 4, 1, 1])
    assert asked[16:18] == bytes([0, 0x12])
    assert (asked[65], sum(asked[66:])) == (3, 0)
    reset = mad.request(7, mad.PORT_COUNTERS, 3, resets=True)
    assert (reset[3], reset[65], reset[66:68], reset[82]) == (2, 3, b"\0\0", 1)
    answer = bytearray(asked)
    answer[64 + 40 : 64 + 44] = bytes([0xFF, 0xFF, 0xFF, 0xFE])
    assert mad.reply(bytes(answer)).xmit_wait == 2**32 - 2
    assert mad.reply(bytes(answer)).transaction == 7


def test_lanes_are_asked_and_reset_as_the_specification_says():
    asked = mad.request(7, mad.PORT_LANES_WAIT, 3, resets=True)
    # All sixteen are chosen by the 16 bits after the port.
    assert (asked[3], asked[17], asked[65:68]) == (2, 0x1C, bytes([3, 0xFF, 0xFF]))
    answer = bytearray(asked)
    answer[64 + 4 : 64 + 36] = bytes(range(32))
    assert mad.reply(bytes(answer)).lanes == tuple(512 * n + 2 * n + 1 for n in range(16))


def test_a_subscription_and_a_notice_are_the_datagrams_of_the_specification():
    asked = mad.subscription(9, on=True)
    assert (len(asked), asked[:4], asked[16:18]) == (256, bytes([1, 3, 2, 2]), bytes([0, 3]))
    # InformInfo (13.4.8.3): a zero GID, all LIDs, generic, on, all types and traps, queue pair 1.
    told = asked[56 : 56 + 36]
    assert told[:22] == bytes(16) + b"\xff\xff" + bytes(4)
    assert told[22:24] == b"\1\1"
    assert told[24:28] == b"\xff" * 4
    assert told[28:31] == b"\0\0\1"
    assert told[33:36] == b"\xff" * 3
    assert mad.subscription(9, on=False)[56 + 23] == 0
    report = bytearray(asked)
    report[3], report[17] = 6, 2
    report[60:62] = bytes([0, 128])
    assert mad.notice(bytes(report)) == 128
    assert mad.notice(asked) is None
    assert mad.noticed(bytes(report))[3] == 0x86


COUNTER = "counters/port_xmit_wait"


def port_folder(root, name, **files):
    folder = root / name.partition("/")[0] / "ports" / name.partition("/")[2]
    (folder / "counters").mkdir(parents=True)
    text = {"state": "4: ACTIVE", "link_layer": "InfiniBand", "lid": "0x5",
            "rate": "56 Gb/sec (4X FDR)", COUNTER: "17"} | files  # fmt: skip
    for file, content in text.items():
        if content is not None:
            (folder / file).write_text(f"{content}\n")


@pytest.fixture
def adapters(tmp_path):
    port_folder(tmp_path, "mlx5_0/1")
    port_folder(tmp_path, "mlx5_0/2", state="1: DOWN", rate="")
    port_folder(tmp_path, "mlx5_1/1", link_layer="Ethernet", lid="0x0")
    port_folder(tmp_path, "mlx5_2/1", **{COUNTER: str(2**32 - 1)})
    port_folder(tmp_path, "mlx5_3/1", **{COUNTER: "N/A (no PMA)"})
    port_folder(tmp_path, "mlx5_4/1", **{COUNTER: None})
    return tmp_path


def test_counter_files_tell_calm_from_what_has_no_value(adapters):
    files = counter_files.CounterFiles(adapters)
    ports = files.ports()
    assert [files.name(port) for port in ports] == [
        "mlx5_0/1", "mlx5_0/2", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1", "mlx5_4/1",
    ]  # fmt: skip
    answers = files.ask(ports)
    against = [sorted(answer.flags & records.AGAINST) for answer in answers]
    assert against == [[], ["down"], ["ethernet"], ["clamped"], ["unsupported"], ["missing"]]
    assert answers[0].wait_ticks == 17
    assert answers[0].tick_ns == pytest.approx(18.77, abs=0.01)
    swept = list(collect.sweeps(files, ports, 2, 0.0))
    waited = {one.port.number: one for one in report.waited(swept, ports)}
    assert waited[1].fitf == 0
    assert all(math.isnan(waited[number].fitf) for number in range(2, 7))
    assert report.flags_told(list(waited.values())) == {
        "down": 1, "ethernet": 1, "clamped": 1, "unsupported": 1, "missing": 1,
    }  # fmt: skip
    assert not files.reset(ports[0])


def test_an_adapter_may_have_any_name(tmp_path):
    port_folder(tmp_path, "mlx\x1b[2J\n/1")
    files = counter_files.CounterFiles(tmp_path)
    assert files.name(files.ports()[0]) == "mlx\\x1b[2J\\n/1"


def test_a_host_without_adapters_says_so(tmp_path):
    with pytest.raises(Unsupported, match="no InfiniBand adapter"):
        counter_files.CounterFiles(tmp_path)


def test_the_commands_over_counter_files(adapters, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(counter_files, "ROOT", adapters)
    out = tmp_path / "records.csv"
    sweep = ["observe", "fabric", "sweep", "--files", "--every", "0", "--out", str(out)]
    assert main(sweep) == 0
    printed = capsys.readouterr().out
    assert "mlx5_0/1" in printed
    assert "6 ports: 0 waited" in printed
    assert sum(map(len, records.read(out))) == 12
    assert main([*sweep, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["port"]: line["fitf"] for line in lines}["mlx5_0/1"] == 0
    assert main(["observe", "fabric", "analyse", str(out), "--json"]) == 0


def test_a_counter_that_ends_between_sweeps_is_told(adapters, monkeypatch, capsys):
    monkeypatch.setattr(counter_files, "ROOT", adapters)
    sleep, slept = counter_files.CounterFiles.sleep, []

    def later(self, seconds):
        slept.append(seconds)
        if len(slept) % 2 == 0:
            (adapters / "mlx5_0/ports/1" / COUNTER).write_text(f"{2**32 - 1}\n")
        sleep(self, 0.001)

    monkeypatch.setattr(counter_files.CounterFiles, "sleep", later)
    sweep = ["observe", "fabric", "sweep", "--files", "--every", "0", "--count", "3"]
    assert main(sweep) == 0
    assert "; 1 not all the time: clamped" in " ".join(capsys.readouterr().out.split())
    (adapters / "mlx5_0/ports/1" / COUNTER).write_text("17\n")
    assert main([*sweep, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["port"], one["fitf"]) for one in lines if one["gaps"] == "clamped"] == [
        ("mlx5_0/1", 0)
    ]


def test_plan_classify_and_analyse(tmp_path, capsys):
    drawn, found = tmp_path / "plan.net", tmp_path / "records.csv"
    assert main(["observe", "fabric", "plan", "--out", str(drawn)]) == 0
    classify = ["observe", "fabric", "classify", str(drawn), "--subsystems", "Glade,DAV"]
    assert main([*classify, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 11
    assert {"kind": "ToR", "way": "up", "switches": 252, "ports": 4536} in lines
    assert main(["observe", "fabric", "plan", "--small", "--out", str(drawn)]) == 0
    assert dump.load(drawn) == plan.cluster(plan.SMALL)
    assert main(classify) == 0
    assert "GladeSpine" in capsys.readouterr().out
    # LID 1 is a ToR switch: its ports 1 to 4 are hosts', 5 to 8 lead up.
    found.write_text("1,1,3,0,0,0\n1,1,3,100000000,0,1000000\n2,1,6,0,0,7\n2,1,6,100000000,0,7\n")
    whole = tmp_path / "whole.csv"
    assert main([*classify, "--records", str(found), "--out", str(whole)]) == 0
    capsys.readouterr()
    assert main(["observe", "fabric", "analyse", str(whole), "--tick-ns", "22", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    by_way = {line["way"]: line for line in lines}
    assert by_way["down"]["maximum_median"] == pytest.approx(0.22)
    assert (by_way["up"]["intervals_zero"], by_way["up"]["intervals_waiting"]) == (1, 0)
    assert main(["observe", "fabric", "analyse", str(whole), "--tick-ns", "22"]) == 0
    assert "100.0 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["classify", "none.net"], "none.net: No such file"),
        (["analyse", "none.csv"], "none.csv: No such file"),
        (["sweep", "--files", "--count", "1"], "--count"),
        (["rounds", "--files", "--out", "x", "--instance", "2"], "--instance 2: 1 to 1"),
        (["classify", "none.net", "--records", "x"], "go together"),
    ],
)
def test_wrong_requests_are_one_message(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["observe", "fabric", *arguments]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_without_the_library_the_message_names_the_package(monkeypatch, capsys):
    def missing(*_, **__):
        raise OSError

    monkeypatch.setattr(umad.ctypes, "CDLL", missing)
    assert main(["observe", "fabric", "sweep"]) == 3
    assert "apt-get install libibumad3" in capsys.readouterr().err


def test_ports_know_their_link():
    fabric = dump.parse(dump.text_of(plan.fat_tree(1, 1, 1)))
    assert asking.ports_of(fabric)[0] == Port(1, 1, dump.Speed(4, "FDR"))
