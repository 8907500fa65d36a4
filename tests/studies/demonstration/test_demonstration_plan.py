"""A demonstration file is read whole or refused with the place and value that is wrong."""

from pathlib import Path

import pytest

from studies.demonstration import delivery_plan
from weir import Bytes, Rate, Time
from weir.errors import BadInput

LAB = """
[hosts.a]
[hosts.b]
[hosts.c]
[routers.r]
[[link]]
ends = ["a", "r"]
[[link]]
ends = ["c", "r"]
[[link]]
name = "core"
ends = ["r", "b"]
rate = "100 Mbit/s"
[[traffic]]
kind = "udp"
from = "c"
to = "b"
rate = "10 Mbit/s"
"""
GOOD = """
lab = "lab.toml"
bottleneck = "core"
calendar_share = "80 %"
calendar_host = "c"
[places]
a = "archive"
[[transfer]]
id = "late"
from = "a"
to = "b"
size = "3 MB"
at = "2 s"
deadline = "4 s"
if_refused = "earliest"
[[transfer]]
id = "first"
from = "a"
to = "b"
size = "1 MB"
deadline = "9 s"
"""


def read(folder: Path, text: str, lab: str = LAB) -> delivery_plan.Plan:
    (folder / "lab.toml").write_text(lab)
    (folder / "demo.toml").write_text(text)
    return delivery_plan.load(folder / "demo.toml")


def test_a_good_file_is_read_in_order_of_submission(tmp_path):
    got = read(tmp_path, GOOD)
    assert [item.id for item in got.transfers] == ["first", "late"]
    assert got.transfers[1].size == Bytes("3 MB")
    assert got.transfers[1].takes_earliest
    assert not got.transfers[0].takes_earliest
    assert got.calendar_share == 0.8
    assert got.routers == "classes"
    assert read(tmp_path, f'routers = "plain"{GOOD}').routers == "plain"
    assert got.background == Rate("10 Mbit/s")
    assert got.bottleneck.name == "core"
    assert got.places["a"] == "archive"
    assert got.epoch == Time("1 s")


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ('discipline = "priority", limit = "2 MB", classes = [[], [1, 8]]', Bytes("1 MB")),
        ('discipline = "priority", limit = "60 ms", classes = [[], [1], [8]]', Time("20 ms")),
        ('discipline = "priority", limit = "30 packets"', 15),
        ('discipline = "fifo", limit = "3 MB"', Bytes("3 MB")),
    ],
)
def test_plain_routers_have_a_fifo_that_holds_as_much_best_effort(tmp_path, given, left):
    lab = LAB.replace('rate = "100 Mbit/s"', f'rate = "100 Mbit/s"\nqueue = {{ {given} }}')
    with_classes = read(tmp_path, GOOD, lab)
    assert with_classes == delivery_plan.with_routers(with_classes, "classes")
    plain = delivery_plan.with_routers(with_classes, "plain")
    assert plain == read(tmp_path, f'routers = "plain"{GOOD}', lab)
    (link,) = [link for link in plain.lab.links if link.name == "core"]
    assert link == plain.bottleneck
    for direction in (link.forward, link.backward):
        assert (direction.queue.discipline, direction.queue.limit) == ("fifo", left)
        assert not direction.queue.parameters
    others = [link for link in with_classes.lab.links if link.name != "core"]
    assert [link for link in plain.lab.links if link.name != "core"] == others


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('bottleneck = "core"', 'bottleneck = "cor"', ["demo.toml:3", "cor", "core"]),
        ('bottleneck = "core"', 'bottleneck = "a-r"', ["demo.toml:3", "a-r has no rate"]),
        ('"80 %"', '"120 %"', ["demo.toml:4", "120 %"]),
        ('"80 %"', "0.8", ["demo.toml:4", "0.8"]),
        ("[places]", 'routers = "none"\n[places]', ["demo.toml:6", "none", "plain"]),
        ('size = "3 MB"', 'size = "0 B"', ["demo.toml:12", "0 B", "more than 0"]),
        ('size = "3 MB"', 'size = "3 miles"', ["demo.toml:12", "3 miles"]),
        ('deadline = "4 s"', 'deadline = "0 s"', ["demo.toml:14", "0 s"]),
        ('deadline = "4 s"', 'deadline = "-4 s"', ["demo.toml:14", "-4 s"]),
        ('from = "a"', 'from = "nowhere"', ["demo.toml:10", "nowhere"]),
        ('from = "a"', 'from = "b"', ["demo.toml:11", "comes from"]),
        ('id = "late"', 'id = "first"', ["first", "twice"]),
        ('id = "late"', 'id = "../etc"', ["demo.toml:9", "../etc"]),
        ('if_refused = "earliest"', 'if_refused = "cry"', ["demo.toml:15", "cry"]),
        ('at = "2 s"', 'hour = "2 s"', ["demo.toml:13", "hour"]),
        ('a = "archive"', 'z = "archive"', ["demo.toml:7", "z"]),
        ('lab = "lab.toml"', 'lab = "gone.toml"', ["gone.toml", "No such file"]),
        ('lab = "lab.toml"', 'lab = "\\u0000"', ["null byte"]),
        ('lab = "lab.toml"\n', "", ["lab is missing"]),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path, old, new, words):
    assert old in GOOD
    with pytest.raises(BadInput) as refused:
        read(tmp_path, GOOD.replace(old, new, 1))
    for word in words:
        assert word in str(refused.value)


def test_a_file_without_transfers_is_refused(tmp_path):
    with pytest.raises(BadInput, match="at least one"):
        read(tmp_path, GOOD.split("[[transfer]]")[0])


def test_the_shipped_demonstration_needs_more_than_equal_shares_give():
    """The arithmetic that its comment claims, done again from the file."""
    shipped = delivery_plan.load(Path(__file__).parents[3] / "scenarios" / "deadlines.toml")
    capacity = shipped.bottleneck.forward.rate.bit_per_s
    left = capacity - shipped.background.bit_per_s
    assert shipped.background.bit_per_s / capacity == pytest.approx(0.15)
    assert shipped.calendar_share * capacity + shipped.background.bit_per_s < capacity
    patient = [item for item in shipped.transfers if item.deadline > Time("20 s")]
    urgent = [item for item in shipped.transfers if item.deadline <= Time("20 s")]
    for item in urgent:
        need = item.size.count * 8 / (item.deadline.ns / 1e9)
        assert need > left / (len(patient) + 1)
    held = sum(item.size.count * 8 / (item.deadline.ns / 1e9) for item in patient)
    assert held < shipped.calendar_share * capacity / 2
    # The hosts: four sites send or receive files.
    assert len({end for item in shipped.transfers for end in (item.source, item.destination)}) >= 4
    delays = {link.forward.delay.ns for link in shipped.lab.links}
    assert len(delays) >= 4
