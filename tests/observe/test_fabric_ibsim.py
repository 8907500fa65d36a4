"""Our collector beside infiniband-diags on one fabric of ibsim: same ports, same counters."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from rig import until

from studies.rig import ibsim
from weir.observe.infiniband import dump, plan, roles

pytestmark = pytest.mark.skipif(ibsim.lacking() is not None, reason=f"{ibsim.lacking()}")
WEIR = [sys.executable, "-m", "weir.cli", "observe", "fabric"]


@pytest.fixture(scope="module")
def fabric(tmp_path_factory):
    """Three edge switches under two, two hosts at each."""
    with ibsim.running(plan.fat_tree(3, 2, 2), tmp_path_factory.mktemp("ibsim")) as running:
        yield running


def perfquery(fabric, lid, port):
    """The counter of waiting, as infiniband-diags reads it."""
    printed = fabric.run(["perfquery", str(lid), str(port)])
    return int(re.search(r"^PortXmitWait:\.*(\d+)$", printed, re.M)[1])


def swept(fabric, *arguments):
    """What a sweep says, by switch and port."""
    printed = fabric.run([*WEIR, "sweep", "--json", "--every", "0", *arguments])
    lines = [json.loads(line) for line in printed.splitlines()]
    return {(line["lid"], line["number"]): line for line in lines}


def test_the_dump_of_ibnetdiscover_is_the_fabric_that_was_made(fabric):
    found = dump.parse(fabric.run(["ibnetdiscover"]))
    assert {one.name: len(one.cables) for one in found.values()} == {
        one.name: len(one.cables) for one in fabric.fabric.values()
    }
    names = {node.id: node.name for node in found.values()}
    kinds = {names[node]: kind for node, kind in roles.classified(found).kind.items()}
    assert kinds == {f"edge-{n}": "Leaf" for n in (1, 2, 3)} | {f"top-{n}": "Spine" for n in (1, 2)}


def test_ours_and_perfquery_read_the_same_counters(fabric, tmp_path):
    found = dump.parse(fabric.run(["ibnetdiscover"]))
    switches = dump.switches(found)
    ticks = {(node.lid, port): 1000 * node.lid + port for node in switches for port in (1, 2)}
    for node in switches:
        fabric.count(*((node.name, port, ticks[node.lid, port]) for port in (1, 2)))
    out = tmp_path / "records.csv"
    swept(fabric, "--out", str(out), "--count", "1")
    lines = [line.split(",") for line in out.read_text().splitlines()[1:]]
    ours = {(int(line[3]), int(line[4])): int(line[7]) for line in lines}
    assert {place: ours[place] for place in ticks} == ticks
    assert {place: perfquery(fabric, *place) for place in ticks} == ticks


def test_a_clamped_counter_and_one_that_was_reset_say_nothing(fabric):
    found = dump.parse(fabric.run(["ibnetdiscover"]))
    node = dump.switches(found)[0]
    fabric.count((node.name, 1, 2**32 - 1))
    said = swept(fabric)
    assert said[node.lid, 1]["reason"] == "clamped"
    assert said[node.lid, 1]["fitf"] is None
    assert said[node.lid, 2]["fitf"] == 0


def test_rounds_reset_the_counter_of_waiting_alone(fabric, tmp_path):
    found = dump.parse(fabric.run(["ibnetdiscover"]))
    for node in dump.switches(found):
        fabric.count(*((node.name, port, 500) for port in node.cables))
    out = tmp_path / "rounds.csv"
    window = ["--window", "1", "--queries", "3", "--gap", "0.01", "--out", str(out)]
    fabric.run([*WEIR, "rounds", *window])
    lines = [line.split(",") for line in out.read_text().splitlines()[1:]]
    assert len(lines) >= 3 * 5
    assert {line[7] for line in lines} == {"0"}
    assert {line[0] for line in lines} <= {"Leaf", "Spine"}


def test_a_port_that_went_is_told_and_the_fabric_looked_at_again(fabric, tmp_path):
    kept = tmp_path / "fabric.net"
    assert len(swept(fabric, "--fabric", str(kept))) == 3 * 4 + 2 * 3
    before = kept.read_text()
    gone = next(node for node in dump.parse(before).values() if node.name == "top-2")
    kept.write_text(before.replace(f"lid {gone.lid} ", "lid 40000 "))
    said = swept(fabric, "--fabric", str(kept))
    assert (40000, 1) not in said, "it is not there any more"
    assert f"lid {gone.lid} " in kept.read_text()


def test_lanes_are_those_that_perfquery_reads(fabric):
    node = dump.switches(dump.parse(fabric.run(["ibnetdiscover"])))[0]
    printed = fabric.run(["perfquery", "--vlxmitcounters", str(node.lid), "1"])
    theirs = tuple(int(n) for n in re.findall(r"^PortVLXmitWait\d+:\.*(\d+)$", printed, re.M))
    script = (
        "from weir.observe.infiniband.asking import Port\n"
        "from weir.observe.infiniband.umad import Umad\n"
        f"with Umad() as umad: print(umad.lanes(Port({node.lid}, 1)))"
    )
    # ibsim answers, with sixteen that stand still.
    assert fabric.run([sys.executable, "-c", script]).strip() == str(theirs) == str((0,) * 16)


def test_a_link_that_went_is_found_by_its_ports_state(fabric, tmp_path):
    kept, out, told = (tmp_path / name for name in ("fabric.net", "out", "told"))
    command = [*WEIR, "top", "--fabric", str(kept), "--every", "0.1", "--json"]
    with out.open("w") as printed, told.open("w") as said:
        watching = subprocess.Popen(
            command, cwd=fabric.folder, env={**os.environ, **fabric.environment},
            stdout=printed, stderr=said,
        )  # fmt: skip
        try:
            until(lambda: out.stat().st_size, "nothing was swept")
            ids = {one.name: one.id for one in fabric.fabric.values()}
            assert told.read_text() == ""
            fabric.tell(f'Unlink "{ids["edge-2"]}"[1]')
            until(lambda: "word of a change" in told.read_text(), "it was not noticed")
            until(lambda: 1 not in links(kept, "edge-2"), "the dump is the old one")
        finally:
            watching.terminate()
            watching.wait()


def links(kept, name):
    """The ports of a switch that have a link, by a dump."""
    return {one.name: one.cables for one in dump.load(kept).values()}[name]


def test_no_simulator_outlives_whoever_is_killed(tmp_path):
    script = f"""
        import sys
        from pathlib import Path
        from studies.rig import ibsim
        from weir.observe.infiniband import plan
        with ibsim.running(plan.fat_tree(2, 1, 2), Path({str(tmp_path)!r})) as running:
            print(running.process.pid, flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as running:
        try:
            status = Path("/proc") / running.stdout.readline().strip() / "stat"
            assert "(ibsim)" in status.read_text()
        finally:
            running.kill()
    until(lambda: not status.exists() or ") Z " in status.read_text(), "ibsim goes on")
