"""What every `weir demo NAME` does beside its subject, with a demonstration that is made up."""

import io
import json
import threading

import pytest
from rich.text import Text

from studies.demonstration import scaffold
from studies.demonstration.scaffold import show
from weir.errors import BadInput, Unavailable
from weir.terminal import Table


class Juggling:
    """Keeps so many balls in the air, of three."""

    name = "juggling"
    intro = "Balls in the air."
    caption = "balls over time"

    def __init__(self, balls=3, error=None):
        self._balls, self._error = balls, error
        self.up = 0

    def carry_out(self, changed):
        def throw():
            self.up = self._balls
            changed()

        thread = threading.Thread(target=throw)
        thread.start()
        thread.join()
        if self._error:
            raise self._error

    def table(self):
        table = Table("hand", "balls")
        table.add_row("left", f"{self.up} up")
        return table

    def notes(self):
        yield Text("one is [red]")

    def facts(self):
        yield {"hand": "left", "up": self.up}

    def figures(self):
        return {"left_height_m": 1.5, "left_balls": self.up}

    def picture(self):
        return "<svg/>"

    def holds(self):
        return self.up == 3


@pytest.mark.parametrize(("balls", "code"), [(3, 0), (2, 1)])
def test_figures_are_shown_and_kept_beside_the_picture(balls, code, tmp_path):
    out, stream = tmp_path / "a" / "demo", io.StringIO()
    assert show(Juggling(balls), out, False, stream) == code
    shown = stream.getvalue()
    for words in ("Balls in the air.", f"{balls} up", "one is [red]", "juggling.svg: balls over"):
        assert words in shown
    assert (out / "juggling.svg").read_text() == "<svg/>"
    kept = json.loads((out / "juggling.json").read_text())
    assert kept["demo"] == "juggling" and kept["holds"] == (balls == 3)
    assert kept["took_s"] < scaffold.LIMIT_S
    assert (kept["left_height_m"], kept["left_balls"]) == (1.5, balls)
    assert sorted(path.name for path in out.iterdir()) == ["juggling.json", "juggling.svg"]


def test_a_machine_gets_facts_alone_and_the_same_files(tmp_path):
    stream = io.StringIO()
    assert show(Juggling(), tmp_path, True, stream) == 0
    assert json.loads(stream.getvalue()) == {"hand": "left", "up": 3}
    assert {path.name for path in tmp_path.iterdir()} == {"juggling.json", "juggling.svg"}


def test_what_breaks_off_leaves_no_folder(tmp_path):
    out = tmp_path / "a" / "demo"
    with pytest.raises(Unavailable, match="fell"):
        show(Juggling(error=Unavailable("fell")), out, True, io.StringIO())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_before_anything_begins(tmp_path):
    (tmp_path / "file").write_text("")
    juggling = Juggling()
    with pytest.raises(BadInput, match="--out"):
        show(juggling, tmp_path / "file" / "demo", True, io.StringIO())
    assert juggling.up == 0
    (tmp_path / "juggling.svg").mkdir()
    with pytest.raises(BadInput, match=r"juggling\.svg: Is a directory"):
        show(juggling, tmp_path, True, io.StringIO())


def test_one_that_takes_too_long_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(scaffold, "LIMIT_S", -1.0)
    stream = io.StringIO()
    show(Juggling(), tmp_path, False, stream)
    assert "-1 s are what it may take" in stream.getvalue()
