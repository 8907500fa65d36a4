"""Ports that count nothing, or do not answer: what stands still is not called calm."""

import json
from dataclasses import replace

import pytest
from umad_rig import Answering

from weir.cli import main
from weir.observe.infiniband import discovery, dump, mad, plan, records, umad
from weir.observe.infiniband.asking import Port
from weir.observe.infiniband.dump import FDR

ABLE, DATA = 1 << 12, 64
"""IsPortCountersXmitWaitSupported, by which perfquery goes, too (infiniband-diags: perfquery.c)."""


class Switches(Answering):
    """Two switches, LID 5 that counts waiting and LID 6 that says it does not."""

    deaf = frozenset()
    """Attributes that nobody answers now, or all of them where it has None."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def umad_send(self, port, agent, buffer, *how):
        self.lid = int.from_bytes(buffer.raw[28:30], "big")
        return super().umad_send(port, agent, buffer, *how)

    def answer(self, datagram):
        attribute = datagram[17]
        self.asked.append((self.lid, attribute))
        if attribute in self.deaf or None in self.deaf:
            return False
        if attribute == mad.CLASS_PORT_INFO:
            able = 0x200 | (ABLE if self.lid == 5 else 0)
            datagram[DATA + 2 : DATA + 4] = able.to_bytes(2, "big")
        elif attribute == mad.PORT_SAMPLES_CONTROL:
            datagram[DATA + 2] = 7
        return super().answer(datagram)


@pytest.fixture
def switches(monkeypatch):
    made = Switches()
    monkeypatch.setattr(umad, "_library", lambda: made)
    return made


PORTS = [Port(lid, number, FDR) for lid in (5, 6) for number in (1, 2)]


def test_a_switch_that_does_not_count_is_not_calm(switches):
    """Its counter stands at zero for ever, as that of a calm port may."""
    with umad.Umad() as fabric:
        for _ in range(3):
            answers = fabric.ask(PORTS)
            against = [one.flags & records.AGAINST for one in answers]
            assert against == [set(), set(), {"unsupported"}, {"unsupported"}]
    asked = [one for one in switches.asked if one[1] == mad.CLASS_PORT_INFO]
    assert asked == [(5, 1), (6, 1)], "each switch once"


def test_who_did_not_say_what_it_counts_is_asked_again_once_it_answers(switches):
    with umad.Umad() as fabric:
        switches.deaf = frozenset({None})
        assert all("missing" in one.flags for one in fabric.ask(PORTS))
        first = len(switches.asked)
        fabric.ask(PORTS)
        assert len(switches.asked) == first + len(PORTS), "only whether anybody is there again"
        switches.deaf = frozenset({mad.CLASS_PORT_INFO, mad.PORT_SAMPLES_CONTROL})
        told = fabric.ask(PORTS)
        assert [set(one.flags) for one in told] == [{"tick-assumed"}] * 4
        switches.deaf = frozenset()
        told = fabric.ask(PORTS)
    assert [set(one.flags) for one in told] == [set(), set(), {"unsupported"}, {"unsupported"}]
    # A Quantum switch's eight bytes of the whole port, not the 32 of a lane that were assumed.
    assert told[0].tick_ns == pytest.approx(8 * FDR.symbol_ns / 4)


SWEEP = ["observe", "fabric", "sweep", "--every", "0", "--json"]


@pytest.mark.parametrize("count", ["1", "2"])
def test_a_sweep_that_nobody_answered_has_failed(switches, monkeypatch, capsys, tmp_path, count):
    made = plan.fat_tree(2, 1, 2)
    monkeypatch.setattr(discovery, "discovered", lambda kept, again=False: made)
    switches.deaf = frozenset({None})
    words = [*SWEEP, "--count", count, "--out", str(tmp_path / "kept.csv")]
    assert main(words) == 6
    told = capsys.readouterr()
    assert "no port that was asked answered" in told.err
    *shown, failed = map(json.loads, told.out.splitlines())
    assert "no port" in str(failed)
    assert {one["reason"] for one in shown} == ({"missing"} if count == "2" else set())
    assert (tmp_path / "kept.csv").read_text().count("missing")
    switches.deaf = frozenset()
    assert main(words) == 0


@pytest.mark.parametrize("command", ["top --count 1 --every 0", "rounds --window 0.01 --gap 0"])
def test_what_nobody_answered_has_failed(switches, monkeypatch, capsys, tmp_path, command):
    made = plan.fat_tree(2, 1, 2)
    monkeypatch.setattr(discovery, "discovered", lambda kept, again=False: made)
    words = ["observe", "fabric", *command.split()]
    words += ["--out", str(tmp_path / "kept.csv")] * ("rounds" in words)
    switches.deaf = frozenset({None})
    assert main(words) == 6
    assert "no port that was asked answered" in capsys.readouterr().err
    switches.deaf = frozenset()
    assert main(words) == 0


@pytest.mark.parametrize("command", ["sweep", "top", "serve", "rounds"])
def test_a_fabric_that_nobody_manages_has_no_ports_to_ask(
    switches, monkeypatch, capsys, tmp_path, command
):
    """No switch has a LID yet; it ended in a traceback."""
    kept, made = tmp_path / "fabric.net", plan.fat_tree(2, 1, 2)
    new = {name: replace(node, lid=0) for name, node in made.items()}
    kept.write_text(dump.text_of(new))
    words = ["observe", "fabric", command, "--fabric", str(kept)]
    words += ["--listen", "127.0.0.1:0"] * (command == "serve")
    words += ["--out", str(tmp_path / "out.csv")] * (command == "rounds")
    assert main(words) == 6
    assert "no switch of this fabric has a LID" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
