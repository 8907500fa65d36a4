"""`weir ops measure`: what is held is not simulated again, and what does not fit is refused.

The meetings are real ones, of a slow path.
"""

import pytest

from studies.cli import measure as command
from studies.training import interaction
from studies.training.interaction import Pairing, measure, pairings
from weir.congestion.choice import Interaction
from weir.congestion.choice.interaction import SHIPPED
from weir.congestion.classify.classes import ALL_LABELS
from weir.errors import BadInput

FEW = [
    Pairing(background, control, 10_000_000, 0.02, 1.0)
    for background in ("B0-C1", "B1-C0")
    for control in interaction.CONTROLS
]


@pytest.fixture
def asked(monkeypatch):
    """The pairings that are wanted; a list to be changed. Ten seconds of each are simulated."""
    wanted = list(FEW)
    monkeypatch.setattr(interaction, "pairings", lambda: iter(wanted))
    monkeypatch.setattr(interaction, "SECONDS", 10)
    return wanted


def told(file):
    words = []
    table = measure(file, words.append)
    return table, words[0]


def test_every_background_meets_every_control_on_every_path():
    wanted = list(pairings())
    assert len(wanted) == len(set(wanted))
    labels = {*ALL_LABELS, "bbr3"}
    assert {(one.background, one.control) for one in wanted} == {
        (label, control) for label in labels for control in interaction.CONTROLS
    }
    paths = {one[2:] for one in wanted}
    assert len(wanted) == len(paths) * len(labels) * len(interaction.CONTROLS)


@pytest.mark.parametrize(("seed", "count"), [(1, 1), (2, 3)])
def test_of_bbr_3_there_is_one_stream_or_three(asked, seed, count):
    found = interaction.simulate(Pairing("bbr3", "cubic", 10_000_000, 0.02, 1.0, seed))
    controls = [stream["congestion"] for flow in found["flows"] for stream in flow["streams"]]
    assert controls == ["bbr3"] * count + ["cubic"]


def test_a_new_background_costs_itself_alone(tmp_path, asked):
    file = tmp_path / "table.json"
    del asked[2:]
    first, words = told(file)
    assert words == "0 meetings of 2 are held"
    asked[:] = FEW
    second, words = told(file)
    assert words == "2 meetings of 4 are held"
    assert set(first.meetings) < set(second.meetings)
    assert {(one.background, one.control) for one in second.meetings} == {
        (one.background, one.control) for one in FEW
    }
    assert list(Interaction.load(file).meetings) == list(second.meetings)
    assert told(file)[1] == "4 meetings of 4 are held"
    asked.clear()
    assert set(told(file)[0].meetings) == set(second.meetings)


def test_it_is_saved_as_it_comes(tmp_path, asked, monkeypatch):
    """What breaks off leaves what was simulated."""
    file = tmp_path / "table.json"
    monkeypatch.setattr(interaction, "_SAVES_S", 0.0)

    def breaks(words):
        if words.startswith("3 of 4"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(file, breaks)
    assert told(file)[1] == "3 meetings of 4 are held"


def test_a_table_of_other_settings_is_left_alone(tmp_path, asked, monkeypatch):
    file = tmp_path / "table.json"
    del asked[1:]
    measure(file)
    before = file.read_bytes()
    monkeypatch.setattr(interaction, "SECONDS", 11)
    with pytest.raises(BadInput, match="measured with seconds = 10, this Weir measures with 11"):
        measure(file)
    assert file.read_bytes() == before


def test_a_table_of_a_simulator_that_finds_otherwise_is_left_alone(tmp_path, asked):
    file = tmp_path / "table.json"
    del asked[1:]
    measure(file)
    own = next(iter(Interaction.load(file).meetings)).own
    file.write_text(file.read_text().replace(str(own), str(own / 2)))
    before = file.read_bytes()
    with pytest.raises(BadInput, match="is of a simulator that finds otherwise: name a new file"):
        measure(file)
    assert file.read_bytes() == before


def test_an_old_table_is_not_gone_on_with(tmp_path, asked):
    file = tmp_path / "table.json"
    file.write_text('{"format": 1, "provenance": {}, "meetings": []}')
    with pytest.raises(BadInput, match="has format 1, this Weir reads 2"):
        measure(file)


def test_the_command_writes_the_table(tmp_path, asked, capsys):
    file = tmp_path / "table.json"
    assert command.run(type("", (), {"file": file})) == 0
    assert len(list(Interaction.load(file).meetings)) == len(FEW)
    assert capsys.readouterr().err.startswith("0 meetings of 4 are held")


def test_the_shipped_table_is_what_the_command_makes():
    shipped = Interaction.shipped()
    assert {interaction._pairing(one) for one in shipped.meetings} == set(pairings())
    assert shipped.provenance["seconds"] == interaction.SECONDS
    assert SHIPPED.stat().st_size < 1_000_000
