"""`weir ops assess-choice`: a table of the drawn meetings foretells them, another does not."""

from dataclasses import replace

import pytest

from studies.cli import assess_choice as command
from studies.training import assess_choice, interaction
from weir.congestion.choice import Interaction


@pytest.fixture(autouse=True)
def soon_simulated(monkeypatch):
    monkeypatch.setattr(assess_choice, "RATES_BPS", (10e6, 12e6))
    monkeypatch.setattr(interaction, "SECONDS", 15)


def cells(lines):
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {row[0]: row[1:] for row in rows[2:]}


def test_a_table_of_the_same_meetings_foretells_them_and_one_turned_round_does_not():
    one = assess_choice.drawn(5, 0)
    table = Interaction(list(one.met.values()), {})
    found = cells(assess_choice.assess(table, 5, 1))
    assert set(found) > {"nothing", "all of it", "what CUBIC's counters tell"}
    assert all(row == ["0.000", "0.000", "1 of 1", "0.000"] for row in found.values())

    bbr, cubic = one.met["bbr"], one.met["cubic"]
    turned = [replace(bbr, control="cubic"), replace(cubic, control="bbr")]
    off = cells(assess_choice.assess(Interaction(turned, {}), 5, 1))["all of it"]
    assert float(off[0]) == pytest.approx(abs(bbr.own - cubic.own), abs=6e-4)
    assert float(off[1]) == pytest.approx(abs(bbr.jain - cubic.jain), abs=6e-4)


def test_what_a_stream_sees_is_the_path_that_it_is_on():
    seen = 0
    for number in range(4):
        one = assess_choice.drawn(5, number)
        path, state = one.pairing, one.seen
        assert state.rtt_s >= path.rtt_s
        # As payload, of packets of 1500 bytes.
        assert state.best_bps <= 1.02 * path.rate_bps * 1448 / 1500
        # A packet itself takes its time, and acknowledgements come for two.
        packets_s = 4 * 12_000 / path.rate_bps
        full_s = path.rtt_s * (1 + path.queue_bdp) + packets_s
        assert state.rtt_s + state.queue_s <= 1.05 * full_s
        seen += state.queue_s > 0
    assert seen >= 3


def test_the_command_prints_the_table(tmp_path, capsys):
    file = tmp_path / "table.json"
    one = assess_choice.drawn(5, 0)
    Interaction(list(one.met.values()), {}).save(file)
    assert command.run(type("", (), {"count": 1, "table": file, "seed": 5})) == 0
    assert cells(capsys.readouterr().out.splitlines())["all of it"][2] == "1 of 1"
