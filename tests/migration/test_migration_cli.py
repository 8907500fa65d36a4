"""`weir migrate plan`: what it prints, draws and refuses."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from weir.cli import main

GOOD = """
step = "8 s"
nodes = ["a", "b", "c"]
[[links]]
name = "left"
ends = ["a", "b"]
capacity = "10 Mbit/s"
[[links]]
name = "right"
ends = ["b", "c"]
capacity = "10 Mbit/s"
[[vms]]
name = "first"
source = "a"
destination = "c"
size = "40 MB"
cost = 10
[[vms]]
name = "second"
source = "a"
destination = "c"
size = "40 MB"
cost = 4
"""


def write(tmp_path, text):
    file = tmp_path / "problem.toml"
    file.write_text(text)
    return str(file)


def test_the_plan_names_vms_links_steps_and_bound(tmp_path, capsys):
    assert main(["migrate", "plan", write(tmp_path, GOOD)]) == 0
    text = capsys.readouterr().out
    for part in ("first", "1-4: 10 MB", "5-8: 10 MB", "left.forward", "degradation 72"):
        assert part in text
    assert "at least 72" in text and "makespan 8 steps" in text


def test_the_example_file_is_planned_to_the_proven_optimum(capsys):
    example = Path(__file__).parents[2] / "scenarios" / "migration.toml"
    assert main(["migrate", "plan", str(example)]) == 0
    assert "degradation 220, at least 220 for any plan" in capsys.readouterr().out


@pytest.mark.parametrize("planner", ["weir", "greedy", "milp", "tcp"])
def test_json_has_the_same_facts_and_they_add_up(tmp_path, capsys, planner):
    assert main(["migrate", "plan", write(tmp_path, GOOD), "--planner", planner, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    costs = {"first": 10, "second": 4}
    finishes = {vm["vm"]: vm["finish_step"] for vm in document["vms"]}
    assert document["degradation"] == sum(costs[vm] * finishes[vm] for vm in costs)
    assert document["bound"] <= document["degradation"]
    assert document["makespan_steps"] == max(finishes.values())
    for intervals in document["links"].values():
        moved = dict.fromkeys(costs, 0)
        for interval in intervals:
            assert sum(interval["bytes_per_step"].values()) <= 10_000_000
            for vm, amount in interval["bytes_per_step"].items():
                moved[vm] += amount * (interval["last_step"] - interval["first_step"] + 1)
        assert moved == {"first": 40_000_000, "second": 40_000_000}
    assert document["degradation"] == (112 if planner == "tcp" else 72)


def test_the_plot_has_a_bar_for_every_piece(tmp_path):
    picture = tmp_path / "plan.svg"
    assert main(["migrate", "plan", write(tmp_path, GOOD), "--plot", str(picture)]) == 0
    titles = [element.text for element in ET.parse(picture).iter() if element.tag.endswith("title")]
    assert titles == [
        "first, steps 1 to 4: 10000000 bytes a step",
        "second, steps 5 to 8: 10000000 bytes a step",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('step = "8 s"', "", "step is missing"),
        ('step = "8 s"', 'step = "0 s"', ':2: problem: step = "0 s": a time of more than 0'),
        ('step = "8 s"', 'step = "1 ns"', 'link "left.forward" carries less than one byte'),
        ('step = "8 s"', 'step = "8 s"\nhorizon = 0', ":3: problem: horizon = 0"),
        ('capacity = "10 Mbit/s"', 'capacity = "0 bit/s"', "more than 0 is allowed"),
        ('capacity = "10 Mbit/s"', 'capacity = "-1 Mbit/s"', "is negative"),
        ('capacity = "10 Mbit/s"', "capacity = nan", "capacity = nan"),
        ('ends = ["a", "b"]', 'ends = ["a", "z"]', "there is no node z"),
        ('ends = ["a", "b"]', 'ends = ["a", "a"]', "two different nodes"),
        ('name = "right"', 'name = "left"', "the link left stands twice"),
        ('name = "second"', 'name = "first"', "the VM first stands twice"),
        ('source = "a"', 'source = "nowhere"', "[[vms]] 1: source"),
        ('destination = "c"', 'destination = "a"', 'VM "first"'),
        ('size = "40 MB"', 'size = "-40 MB"', "is negative"),
        ('size = "40 MB"', 'size = "0 B"', "more than 0"),
        ('size = "40 MB"', "size = 40", "[[vms]] 1: size = 40"),
        ("cost = 10", "cost = -1", "cost = -1: a whole number"),
        ("cost = 10", "cost = nan", "cost = nan"),
        ("cost = 10", "cost = []", "a list of at least one"),
        ("cost = 10", 'growth = "10 MB"', 'VM "first" grows as fast as its widest path'),
        ("cost = 10", 'path = ["right"]', 'VM "first": its path does not lead'),
        ("cost = 10", 'path = ["right", "left"]', 'VM "first": its path does not lead'),
        ("cost = 10", 'path = ["up"]', '"up" is not a link'),
        ("cost = 10", "colour = 1", "colour is not a key here"),
        ('nodes = ["a", "b", "c"]', 'nodes = ["a", "b", "c", "a"]', 'node "a" is there twice'),
        ('ends = ["b", "c"]', 'ends = ["b", "c"]\nduplex = "forward"', None),
        ('ends = ["a", "b"]', 'ends = ["b", "a"]\nduplex = "forward"', "there is no path from"),
    ],
)
def test_bad_input_names_the_item_and_ends_with_2(tmp_path, capsys, old, new, message):
    assert old in GOOD
    code = main(["migrate", "plan", write(tmp_path, GOOD.replace(old, new, 1)), "--json"])
    told = capsys.readouterr().err
    if message is None:
        assert code == 0
    else:
        assert code == 2 and message in told


def test_bad_options_are_bad_input(tmp_path, capsys):
    file = write(tmp_path, GOOD)
    for options in (["--planner", "magic"], ["--seed", "-1"], ["--time-limit", "soon"]):
        assert main(["migrate", "plan", file, *options]) == 2
    assert main(["migrate", "plan", str(tmp_path / "missing.toml")]) == 2
    assert main(["migrate", "plan", file, "--plot", str(tmp_path / "no" / "x.svg")]) == 2
    assert capsys.readouterr().err.count("weir: ") == 5
