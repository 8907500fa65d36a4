"""A chart's shapes stand where the numbers say, and its names can be read."""

import itertools
import math
import xml.etree.ElementTree as ET

import pytest

from weir.chart.charts import Series, Table, boxes, lines, tables


def drawn(tmp_path, series, title="A title"):
    lines(tmp_path / "chart.svg", title, "x, s", "y, %", series)
    return ET.parse(tmp_path / "chart.svg")


def corners(picture):
    """The places of each polyline, in the picture's units."""
    return [
        [tuple(map(float, place.split(","))) for place in line.get("points").split()]
        for line in picture.iterfind(".//{*}polyline")
    ]


def test_places_stand_in_proportion(tmp_path):
    picture = drawn(tmp_path, [Series("a", [(0, 0, 0), (5, 25, 0), (20, 100, 0)])])
    ((x0, y0), (x1, y1), (x2, y2)) = corners(picture)[0]
    assert (x1 - x0) / (x2 - x0) == pytest.approx(0.25, abs=0.001)
    assert (y0 - y1) / (y0 - y2) == pytest.approx(0.25, abs=0.001)
    words = [text.text for text in picture.iterfind(".//{*}text")]
    assert {"A title", "x, s", "y, %", "0", "20", "100", "a"} <= set(words)


def test_an_interval_is_as_long_as_twice_its_margin(tmp_path):
    picture = drawn(tmp_path, [Series("a", [(0, 0, 0), (1, 50, 10), (2, 100, 0)])])
    (_, y0), _, (_, y2) = corners(picture)[0]
    (bars,) = (path.get("d") for path in picture.iterfind(".//{*}g/{*}path"))
    low, high = bars.rsplit("M", 1)[1].split(" ")[1].split("V")
    assert (float(low) - float(high)) / (y0 - y2) == pytest.approx(0.2, abs=0.005)


def test_names_of_close_curves_do_not_cover_each_other(tmp_path):
    series = [Series(f"curve {index}", [(0, 0, 0), (1, index / 100, 0)]) for index in range(8)]
    series.append(Series("far", [(0, 0, 0), (1, 100, 0)]))
    picture = drawn(tmp_path, series)
    named = {text.text: float(text.get("y")) for text in picture.iterfind(".//{*}text")}
    heights = sorted(named[one.name] for one in series)
    assert all(below - above >= 15.9 for above, below in itertools.pairwise(heights))
    height = float(picture.getroot().get("viewBox").split()[3])
    assert 0 < heights[0] < heights[-1] < height


@pytest.mark.parametrize(
    "places", [[(3, 4, 0)], [(0, 0, 0)], [(-1, -5, 1), (1, -5, 1)], [(1, 1e-9, 0), (2, 3e9, 0)]]
)
def test_whatever_is_finite_can_be_drawn_inside(tmp_path, places):
    picture = drawn(tmp_path, [Series("a", places)])
    width, height = map(float, picture.getroot().get("viewBox").split()[2:])
    for x, y in corners(picture)[0]:
        assert 0 <= x <= width
        assert 0 <= y <= height


def test_what_is_not_finite_is_left_out_and_names_are_text(tmp_path):
    places = [(0, 1, 0), (1, math.nan, 0), (2, 3, 0), (3, math.inf, 0)]
    picture = drawn(tmp_path, [Series("a < b", places), Series("none", [(0, math.nan, 0)])], "<&>")
    assert [len(line) for line in corners(picture)] == [2]
    words = {text.text for text in picture.iterfind(".//{*}text")}
    assert {"a < b", "<&>"} <= words
    assert "none" not in words


def test_a_box_stands_between_the_quartiles(tmp_path):
    """The quartiles of 0, 1, ..., 8 are 2, 4 and 6; the axis goes from 0 to 8 or 10."""
    values = {"a": [[4.0], list(map(float, range(9)))], "b": [[2.0], [6.0]]}
    boxes(tmp_path / "chart.svg", "A title", "w, s", "y, %", ["5", "10"], values)
    picture = ET.parse(tmp_path / "chart.svg")
    named = {group.find("{*}title").text: group for group in picture.iterfind(".//{*}g")}
    assert named.keys() == {"a, 5", "b, 5", "a, 10", "b, 10"}
    box = named["a, 10"].find("{*}rect")
    top, height = float(box.get("y")), float(box.get("height"))
    # A box of one value is a line where that is; 2 and 6 are given so.
    one_at = {name: float(named[name].find("{*}rect").get("y")) for name in ("b, 5", "b, 10")}
    assert top == pytest.approx(one_at["b, 10"], abs=0.1)
    assert top + height == pytest.approx(one_at["b, 5"], abs=0.1)
    median = named["a, 10"].findall("{*}path")[-1].get("d")
    assert float(median.split(" ")[1].split("h")[0]) == pytest.approx(top + height / 2, abs=0.1)
    whiskers = named["a, 10"].find("{*}path").get("d")
    least, most = float(whiskers.split(" ")[1].split("V")[0]), float(whiskers.rsplit("V", 1)[1])
    assert least - most == pytest.approx(2 * height, abs=0.1)


def test_each_curve_may_have_a_box_of_its_values(tmp_path):
    series = [Series(name, [(0, 1, 0), (5, 3, 0), (20, 2, 0)]) for name in ("a", "b")]
    lines(tmp_path / "chart.svg", "A title", "x, s", "y, %", series, with_boxes=True)
    picture = ET.parse(tmp_path / "chart.svg")
    width = float(picture.getroot().get("viewBox").split()[2])
    boxes_at = [float(box.get("x")) for box in picture.iterfind(".//{*}g/{*}rect")]
    assert len(boxes_at) == 2
    assert all(0 < at < width - 14 for at in boxes_at)


def test_a_cell_says_how_many_and_is_as_dark_as_its_share(tmp_path):
    table = Table("passive", ["a", "b"], [[3, 1], [0, 4]])
    tables(tmp_path / "chart.svg", "A title", [table, table])
    picture = ET.parse(tmp_path / "chart.svg")
    words = [text.text for text in picture.iterfind(".//{*}text")]
    assert words.count("3") == words.count("4") == 2
    shades = {
        rect.find("{*}title").text: float(rect.get("fill-opacity"))
        for rect in picture.iterfind(".//{*}rect[{*}title]")
    }
    assert shades == {
        "a taken for a": 0.75,
        "a taken for b": 0.25,
        "b taken for a": 0.04,
        "b taken for b": 1.0,
    }


def is_whole(picture):
    """Whether each text ends within the picture; eight pixels are more than a letter has."""
    width = float(picture.getroot().get("viewBox").split()[2])
    ends = {"start": 8, "middle": 4, "end": 0}
    return all(
        float(text.get("x")) + ends[text.get("text-anchor")] * len(text.text) <= width
        for text in picture.iterfind(".//{*}text")
        if "rotate" not in (text.get("transform") or "")
    )


@pytest.mark.parametrize("with_boxes", [False, True])
@pytest.mark.parametrize("title", ["Short", "A title that says all of a path, " * 4])
@pytest.mark.parametrize("name", ["a", "strict by a relay, join end at the sender"])
def test_no_name_and_no_title_is_cut(tmp_path, name, title, with_boxes):
    places = [(0, 1, 0), (1, 2, 0)]
    file = tmp_path / "chart.svg"
    lines(file, title, "x", "y", [Series(name, places), Series("b", places)], with_boxes)
    assert is_whole(ET.parse(file))
    boxes(file, title, "x", "y", ["5"], {name: [[1.0, 2.0]], "b": [[2.0]]})
    assert is_whole(ET.parse(file))
