"""The page and `result.json` say what was measured, nothing else, for any outcome."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import synthetic

from studies.demonstration.report import Decision, Half, Result, figures, format, page, write
from weir.chart import plot
from weir.format import rate

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Outline(HTMLParser):
    """Fails on unbalanced elements; collects text and attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text.append(data)


def outline(result: Result) -> Outline:
    parsed = Outline()
    parsed.feed(page.render(result))
    parsed.close()
    assert parsed.open == []
    return parsed


def worse(half: Half, index: int, **changes) -> Half:
    rows = list(half.deliveries)
    rows[index] = replace(rows[index], **changes)
    return replace(half, deliveries=rows)


def test_the_headline_counts_what_was_on_time():
    result = synthetic.result()
    assert "7 of 7 files on time with Weir, 3 of 7 with plain TCP" in format.headline(result)
    lost = replace(result, weir=worse(result.weir, 3, finish_s=7.51))
    assert "6 of 7 files on time with Weir" in format.headline(lost)
    assert not lost.kept_every_promise
    assert result.kept_every_promise


def test_a_file_that_is_late_or_wrong_breaks_the_promise():
    result = synthetic.result()
    assert replace(result, plain=worse(result.plain, 0, verified=False)).kept_every_promise
    for wrong in ({"verified": False}, {"finish_s": None}):
        assert not replace(result, weir=worse(result.weir, 0, **wrong)).kept_every_promise


def test_json_has_the_documented_keys_and_round_trips():
    result = synthetic.result()
    data = json.loads(json.dumps(result.to_json()))
    for half in ("weir", "plain"):
        for row in data[half]:
            assert {"id", "bytes", "deadline_s", "finish_s", "on_time", "verified"} <= set(row)
            assert row["on_time"] == (row["finish_s"] <= row["deadline_s"])
        assert 0 < data["utilisation"][half] <= 1
    assert {"scenario", "seed", "version", "timelines", "decisions"} <= set(data)
    assert Result.from_json(data) == result


def test_the_page_needs_nothing_else_and_is_well_formed():
    parsed = outline(synthetic.result())
    outside = [v for k, v in parsed.attributes if k in {"src", "href"} or "url(" in (v or "")]
    assert outside == []
    assert not re.search(r"https?://|@import|url\(", page.render(synthetic.result()))


def test_the_page_shows_every_figure_of_the_table():
    result = synthetic.result()
    text = " ".join(outline(result).text)
    for half in (result.weir, result.plain):
        for delivery in half.deliveries:
            assert delivery.id in text
            assert format.verdict(delivery) in text
            assert f"{delivery.finish_s:.2f} s" in text


def test_answers_are_told_and_changes_of_rate_are_counted():
    parsed = outline(synthetic.result())
    text = " ".join(parsed.text)
    assert "admitted at 89 Mbit/s" in text
    assert "agents were told them: 1" in text
    assert "genomes 47 Mbit/s" in text
    bare = replace(synthetic.result(), decisions=[])
    assert "Changes of rate" not in " ".join(outline(bare).text)


def test_the_allotted_rate_is_drawn_from_admission_to_arrival():
    rendered = page.render(synthetic.result())
    lines = re.findall(r'<polyline class="allotted" points="([^"]+)"', rendered)
    assert len(lines) == 2  # two files have decisions, in Weir's half only
    x = [float(point.split(",")[0]) for point in lines[0].split()]
    span = 23.6 * 1.03
    assert x == pytest.approx([0, 100 * 0.5 / span, 100 * 0.5 / span, 100 * 18.8 / span], abs=0.2)


def test_what_arrived_after_its_deadline_is_red_from_there_on():
    result = synthetic.result()
    rendered = page.render(result)
    shapes = re.findall(r'<polygon class="overdue" points="([^"]+)"', rendered)
    late = [d for d in result.plain.deliveries if not d.on_time]
    assert len(shapes) == len(late) == 4
    span = 23.6 * 1.03
    for shape, delivery in zip(shapes, late, strict=True):
        points = [tuple(map(float, point.split(","))) for point in shape.split()]
        begin = min(x for x, y in points if y < 99) / 100 * span
        due = delivery.submitted_s + delivery.deadline_s
        assert begin == pytest.approx(due, abs=2 * synthetic.STEP_S)


def test_a_file_that_never_arrived_is_said_to():
    result = synthetic.result()
    result = replace(result, plain=worse(result.plain, 4, finish_s=None, verified=False))
    text = " ".join(outline(result).text)
    assert "never arrived" in text
    assert "NO" in text


def test_names_cannot_become_markup():
    evil = "</script><b onload=x>&"
    result = synthetic.result()
    result = replace(
        result,
        weir=worse(result.weir, 0, id=evil, what=evil),
        plain=worse(result.plain, 0, id=evil, what=evil),
    )
    parsed = outline(result)
    assert ("onload", "x") not in parsed.attributes
    assert evil in parsed.text


def test_nothing_measured_still_gives_a_page():
    result = synthetic.result()
    rows = [replace(d, finish_s=None, verified=False) for d in result.weir.deliveries]
    empty = Half(rows, replace(result.weir.timeline, flows_bps={}, links={}), 0.0)
    assert "0 of 7" in format.headline(replace(result, weir=empty, plain=empty))
    outline(replace(result, weir=empty, plain=empty, decisions=[]))


def test_writing_replaces_both_files(tmp_path):
    write(synthetic.result(), tmp_path / "out")
    written = write(synthetic.result(version="0.2.0"), tmp_path / "out")
    assert "Weir 0.2.0" in written.read_text()
    assert json.loads((tmp_path / "out" / "result.json").read_text())["version"] == "0.2.0"
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["index.html", "result.json"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (213.4e6, "213 Mbit/s"),
        (999.7e6, "1 Gbit/s"),
        (1.25e9, "1.25 Gbit/s"),
        (5e3, "5 kbit/s"),
        (0, "0 bit/s"),
    ],
)
def test_rates_in_words(value, text):
    assert rate(value) == text


def test_a_lateness_too_small_to_print_is_not_called_on_time():
    late = replace(synthetic.result().weir.deliveries[0], finish_s=42.01)
    assert format.verdict(late) == "0.1 s late"


def test_axes_clip_and_ticks_are_round():
    axes = plot.Axes(20.0, 400.0)
    assert (axes.x(10), axes.y(100), axes.x(25), axes.y(500)) == (50.0, 75.0, 100.0, 0.0)
    assert plot.ticks(24.3) == [0, 5, 10, 15, 20]
    assert plot.ticks(400e6, 4) == [0, 100e6, 200e6, 300e6, 400e6]


def test_what_was_promised_and_what_came_beside_it_make_up_the_rate():
    half = synthetic.result().weir
    delivery = half.deliveries[0]
    flows = half.timeline.flows_bps | {delivery.id: [5e6, 5e6, 5e6, 0.0]}
    half = replace(half, timeline=replace(half.timeline, step_s=1.0, flows_bps=flows))
    told = [
        Decision(0.0, delivery.id, "accepted", rate_bps=7_000_000),
        Decision(1.2, delivery.id, "rate", rate_bps=2_000_000),
        Decision(1.2, "another", "rate", rate_bps=1),
    ]
    assert figures.promised(half, delivery, told) == (
        [5e6, 5e6, 5e6, 0.0],
        [5e6, 2e6, 2e6, 0.0],
    )
    # Plain TCP promises nothing, so there are no two shades.
    series, kept = figures.promised(half, delivery, [])
    assert series == kept
    shades = "".join(figures.stack(half, plot.Axes(25.0, 1e9), told))
    assert shades.count('"flow f0"') == shades.count('"flow f0 rest"') == 1
    assert "rest" not in "".join(figures.stack(half, plot.Axes(25.0, 1e9)))


def test_the_stack_carries_every_bit_it_was_given():
    """The area under the stack's roof is the sum of the flows' areas."""
    half = synthetic.result().weir
    shapes = figures.stack(half, plot.Axes(25.0, 1e9))
    roofs = []
    for shape in shapes:
        points = re.search(r'points="([^"]+)"', shape).group(1).split()
        ys = [100 - float(point.split(",")[1]) for point in points]
        roofs.append(ys[: len(ys) // 2])
    total = [
        sum(values) / 1e9 * 100 for values in zip(*half.timeline.flows_bps.values(), strict=True)
    ]
    assert roofs[-1] == pytest.approx(total, abs=0.02)
