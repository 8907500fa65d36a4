"""Whatever a document says, each loader takes it or names what is wrong; it never panics.

A panic of the Rust core is no `Exception`, so nothing here could swallow one; neither is any other
error of Python's an answer.
"""

import json
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from hostile_documents import as_bytes, as_json, as_toml, examples, spoilt, texts, toml, values
from hypothesis import assume
from hypothesis import strategies as st

from studies.demonstration import delivery_plan
from studies.reproduction import page
from studies.reproduction.catalogue import rows as reproduced
from weir import Bytes, Rate, Time, lab, migration
from weir._core import (
    Calendar,
    Emulator,
    LiveApplication,
    MigrationProblem,
    MigrationSearch,
    calendar_study,
    deadline_fat_tree,
    deadline_figures,
    deadline_policies,
    deadline_run,
    deadline_serve,
    default_paths,
    headroom_expectation,
    simulate_headroom,
    simulate_study,
    simulate_trace,
)
from weir.calendar.network import load_network
from weir.calendar.study import from_node_link
from weir.errors import BadInput, WeirError
from weir.runs import cluster
from weir.runs.cluster import compute

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def scenario(name):
    return tomllib.loads((SCENARIOS / name).read_text())


def link(name, source, target, capacity=10**9):
    return {"name": name, "from": source, "to": target, "capacity_bps": capacity}


PAIR = {"nodes": ["a", "b"], "links": [link("x", "a", "b"), link("y", "b", "a")]}
RING = {
    "nodes": ["a", "b", "c", "d"],
    "links": [link("x", "a", "b"), link("y", "b", "c"), link("z", "c", "a")],
}
NETWORKS = [PAIR, RING]


def small(tree, bounds):
    """Whether counts are such that the run would end soon, wherever they stand in the tree."""
    left = [tree]
    while left:
        holder = left.pop()
        if isinstance(holder, dict):
            counts = [(key, value) for key, value in holder.items() if key in bounds]
            if any(isinstance(value, int | float) and value > bounds[key] for key, value in counts):
                return False
            left += holder.values()
        elif isinstance(holder, list):
            left += holder
    return True


def parsed(text):
    with suppress(ValueError, RecursionError):
        return json.loads(text)


@examples(150, text=as_json(NETWORKS))
def test_networks_do_not_panic(text):
    with suppress(WeirError):
        calendar = Calendar(text, "local-ljf", Time("1 s"))
        calendar.submit(Time("0 s"), "f", "a", "b", Bytes("1 GB"), Time("1 h"))


def snapshots():
    calendar = Calendar(json.dumps(RING), "global-ljf", Time("60 s"), admission="at-epoch")
    for number in range(3):
        calendar.submit(Time("0 s"), f"f{number}", "a", "c", Bytes("1 GB"), Time("1 h"))
    calendar.epoch(Time("60 s"))
    fixed = Calendar(json.dumps(PAIR), "fixed", Time("1 s"))
    fixed.submit(Time("0 s"), "f", "a", "b", Bytes("1 GB"), Time("1 h"))
    weir = Calendar(json.dumps(PAIR), "weir", Time("1 s"))
    weir.submit(Time("0 s"), "f", "a", "b", Bytes("1 GB"), Time("1 h"), start=Time("1 min"))
    return [json.loads(each.snapshot()) for each in (calendar, fixed, weir)]


@examples(200, text=as_json(snapshots()))
def test_snapshots_do_not_panic(text):
    with suppress(WeirError):
        calendar = Calendar.restore(text)
        calendar.submit(Time("120 s"), "g", "a", "b", Bytes("1 GB"), Time("2 h"))
        calendar.epoch(Time("180 s"))


NETWORK_FILES = [
    {
        "nodes": {"a": {"address": "10.0.0.1"}, "b": {"address": "10.0.0.2"}, "c": {}},
        "links": [
            {"name": "w", "ends": ["a", "b"], "capacity": "1 Gbit/s"},
            {"name": "core", "from": "b", "to": "c", "capacity_bps": 500000000},
        ],
    },
    PAIR,
]


@examples(150, data=as_bytes(as_toml(NETWORK_FILES)) | as_bytes(as_json(NETWORK_FILES)))
def test_network_files_do_not_panic(tmp_path_factory, data):
    for suffix in ("toml", "json"):
        path = tmp_path_factory.getbasetemp() / f"network.{suffix}"
        path.write_bytes(data)
        with suppress(WeirError):
            Calendar(load_network(path).engine_json(), "fixed", Time("1 s"))


def distribution(**law):
    return law


STUDIES = [
    {
        "network": RING,
        "sharing": "max-min",
        "workload": {
            "seed": 1,
            "flows": 50,
            "arrivals": {"poisson": {"rate_per_s": 2}},
            "sizes": {"bytes": {"pareto": {"shape": 2.1, "minimum": 1e7}}},
            "pairs": [{"from": "a", "to": "b", "share": 1, "weight": 2, "priority": 0}],
        },
    },
    {
        "network": PAIR,
        "sharing": "equal-split",
        "until_ns": 10**12,
        "workload": {
            "seed": 2,
            "flows": 50,
            "arrivals": {"closed_loop": {"users": 3, "think_s": {"constant": 1}}},
            "sizes": {"rate_bps": {"lognormal": {"median": 1e8, "sigma": 1}}},
            "deadlines": {"after_s": {"exponential": {"mean": 60}}},
        },
    },
    {
        "network": PAIR,
        "sharing": {"priority": 2},
        "workload": {
            "seed": 3,
            "flows": 50,
            "arrivals": {"deterministic": {"interval_s": 0.1}},
            "sizes": {"bytes": {"empirical": [1e6, 2e6, 5e7]}},
            "deadlines": {"cushion_s": {"exponential": {"mean": 5}}},
        },
    },
]


@examples(400, text=as_json(STUDIES))
def test_fluid_studies(text):
    assume(small(parsed(text), {"flows": 1000, "users": 1000}))
    with suppress(WeirError):
        outcome = simulate_study(text)
        assert len(outcome) <= 1000


HEADROOM = [
    {
        "study": study,
        "service": {
            "service": "dynamic",
            "measure": "flows",
            "ties": "random",
            "paths_max": 3,
            "hop_limit": {"hops_more": 1, "from_flows": 2},
            "setup_ns": 10**9,
        },
        "limits_bps": {"exponential": {"mean": 1e8}},
    }
    for study in STUDIES[:2]
]


@examples(300, text=as_json(HEADROOM))
def test_headroom_studies_do_not_panic(text):
    assume(small(parsed(text), {"flows": 1000, "users": 1000}))
    with suppress(WeirError):
        simulate_headroom(text)


reals = st.floats() | st.sampled_from([0.0, 2.0, 2.1, 4.0])


@examples(
    300,
    rate=reals,
    shape=reals,
    minimum=st.integers(0, 2**64 - 1),
    headroom=st.integers(0, 2**64 - 1),
    sharing=st.booleans(),
)
def test_headroom_expectations(rate, shape, minimum, headroom, sharing):
    amounts = Bytes.from_count(minimum), Rate.from_bit_per_s(headroom)
    with suppress(WeirError):
        found = headroom_expectation(rate, shape, *amounts, processor_sharing=sharing)
        assert 0 <= found.utilisation <= 1


@examples(150, text=as_json(NETWORKS))
def test_default_paths_do_not_panic(text):
    with suppress(WeirError):
        default_paths(text)


CALENDARS = [
    {
        "network": RING,
        "policy": policy,
        "epoch_s": 180.0,
        "clock": clock,
        "workload": {
            "seed": 1,
            "flows": 30,
            "arrivals": {"poisson": {"rate_per_s": 0.4}},
            "sizes": {"rate_bps": {"exponential": {"mean": 1e8}}},
            "deadlines": {"after_s": {"exponential": {"mean": 3600}}},
            "pairs": [{"from": "a", "to": "b", "share": 1}],
        },
    }
    for policy, clock in (("global-ljf", "published"), ("weir", "true"), ("edf", "true"))
]


@examples(400, text=as_json(CALENDARS))
def test_calendar_studies_do_not_panic(text):
    assume(small(parsed(text), {"flows": 1000, "users": 1000}))
    with suppress(WeirError):
        calendar_study(text)


GRAPHS = [{"nodes": [{"id": 0}, {"id": "b"}], "edges": [{"source": 0, "target": "b"}]}]


@examples(150, graph=spoilt(GRAPHS), capacity=st.integers(-1, 2**64))
def test_node_link_graphs_do_not_panic(graph, capacity):
    with suppress(WeirError):
        Calendar(json.dumps(from_node_link("g", graph, capacity)), "fixed", Time("1 s"))


TRACE = """link a b 1000000000
link b c 1000000000
route 0 1
route 0
flow 0 0 5000000 deadline_ns=120000000000
flow 1000 1 1000000 weight=2 priority=1 limit_bps=1000000
flow 2000 0 10000000"""


@examples(300, lines=spoilt([[line.split() for line in TRACE.splitlines()]]), options=st.data())
def test_fluid_traces_do_not_panic(lines, options):
    words = (line if isinstance(line, list) else [line] for line in lines)
    text = "\n".join(" ".join(map(str, line)) for line in words).replace("\ud800", "?")
    sharing = options.draw(st.sampled_from(["max-min", "equal-split", "priority"]))
    until = options.draw(st.sampled_from([None, Time("0 s"), Time("1 h")]))
    with suppress(WeirError):
        simulate_trace(text, sharing=sharing, priorities=2, until=until)


SETTINGS = [
    {
        "workload": {
            "sizes": {"low": 2, "high": 198},
            "deadlines": {"exponential": {"mean_slots": 60.0, "reading": "cushion"}},
        },
        "arrivals": {"closed-loop": {"servers": 4, "probability": 0.01, "slots": 500}},
        "early_termination": "hopeless",
    },
    {
        "workload": {
            "sizes": {"low": 2, "high": 198},
            "deadlines": {"opposed": {"horizon_slots": 250}},
        },
        "arrivals": {"batch": {"flows": 10, "instances": 3}},
        "early_termination": "late",
    },
    {
        "workload": {
            "sizes": {"low": 1, "high": 9},
            "deadlines": {"exponential": {"mean_slots": 9.0, "reading": "redrawn"}},
        },
        "arrivals": {"periodic": {"servers": 3, "interval_slots": 5, "generations": 10}},
        "early_termination": "hopeless",
    },
]
COUNTS = {"flows": 300, "instances": 50, "slots": 5000, "servers": 300, "generations": 50}


@examples(300, text=as_json(SETTINGS), policy=st.sampled_from(deadline_policies()))
def test_deadline_settings_do_not_panic(text, policy):
    assume(small(parsed(text), COUNTS))
    with suppress(WeirError):
        deadline_run(text, policy, [1])


TREES = [{"ports": 4, "workload": SETTINGS[0]["workload"], "load": 0.8, "slots": 300}]


@examples(150, text=as_json(TREES))
def test_deadline_fat_trees_do_not_panic(text):
    assume(small(parsed(text), {"ports": 8, "slots": 1000, "load": 4}))
    with suppress(WeirError):
        deadline_fat_tree(text, "weir", [1])


READINGS = [
    {"reading": "cushion", "probability": "tuned", "horizon_slots": 250, "slots": 1000},
    {"instances": 5, "generations": 5},
]


@examples(150, text=as_json(READINGS))
def test_deadline_readings_do_not_panic(text):
    with suppress(WeirError):
        deadline_figures(text)


u64 = st.sampled_from([0, 1, 2, 300, 10**9, 2**32, 2**63, 2**64 - 1]) | st.integers(0, 300)


@examples(
    200,
    flows=st.lists(st.tuples(u64, u64, u64), max_size=6),
    policy=st.sampled_from(deadline_policies()),
)
def test_deadline_flows_do_not_panic(flows, policy):
    # A flow of 10^9 packets is served packet by packet by some policies.
    assume(all(size <= 300 or size > 10**9 for _, size, _ in flows))
    with suppress(WeirError):
        deadline_serve(policy, flows)


VM = {"name": "v", "source": "a", "destination": "b", "size_bytes": 10**6}
PROBLEMS = [
    {
        "step_ns": 10**9,
        "half_duplex": [["x", "y"]],
        "vms": [
            VM | {"cost": [1], "growth_bytes": [0]},
            VM | {"name": "w", "cost": [3, 2], "growth_bytes": [5, 0], "path": ["x"]},
        ],
    }
]


@examples(300, network=as_json([PAIR]) | st.just(json.dumps(PAIR)), text=as_json(PROBLEMS))
def test_migration_problems_do_not_panic(network, text):
    with suppress(WeirError):
        problem = MigrationProblem(network, text)
        problem.fair_sharing()
        problem.greedy(1)
        search = MigrationSearch(problem, 1)
        search.improve(3)
        search.tighten(2)
        search.offer(problem.greedy())
        search.windows(10)


PLANS = json.loads(MigrationProblem(json.dumps(PAIR), json.dumps(PROBLEMS[0])).greedy())


@examples(300, text=as_json([PLANS]))
def test_migration_plans(text):
    problem = MigrationProblem(json.dumps(PAIR), json.dumps(PROBLEMS[0]))
    search = MigrationSearch(problem, 1)
    for call in (lambda: problem.check(text, 0), lambda: problem.measure(text)):
        with suppress(WeirError):
            call()
    with suppress(WeirError):
        search.offer(text)
        assert search.bound <= search.degradation


def direction(**queue):
    loss = {"model": "gilbert-elliott", "p": 0.1, "r": 0.5, "h": 0.1, "k": 1.0}
    return {"rate_bps": 10**6, "delay_ns": 1, "jitter_ns": 0, "loss": loss, "queue": queue}


END = {"netns": "/proc/self/ns/net", "device": "weir0", "mtu": 1500}
EMULATIONS = [
    {
        "seed": 1,
        "links": [
            {
                "name": "l",
                "a": END,
                "b": END | {"device": "weir1"},
                "forward": direction(discipline="fifo", limit={"bytes": 10**6}),
                "backward": direction(discipline="priority", limit={"packets": 10}),
            }
        ],
    }
]


@examples(300, text=as_json(EMULATIONS))
def test_emulations_do_not_panic(text):
    with suppress(WeirError):
        Emulator(text)


LIVE = [
    {"seed": 1, "name": "l", "address": "127.0.0.1", "port": 9, "application": application}
    for application in (
        {"kind": "web", "requests_per_s": 5.0, "tcp": {"nagle": False}},
        {"kind": "pages", "interval_ns": 10**9, "objects": 3, "shape": 0.9},
        {"kind": "piv", "rate_bps": 10**6, "in_flight_max": 2},
        {"kind": "rpc", "concurrency": 3, "reply_bytes": 1000, "service_ns": 5},
        {"kind": "game", "clients": 2, "think_ns": 10**9},
    )
]


@examples(300, text=as_json(LIVE))
def test_live_applications_do_not_panic(text):
    with suppress(WeirError):
        LiveApplication(text)


LABS = [scenario(name) for name in ("background.toml", "home.toml", "two-hosts.toml", "wan.toml")]


@examples(300, data=as_bytes(as_toml(LABS)))
def test_lab_scenarios_do_not_panic(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "lab.toml"
    path.write_bytes(data)
    with suppress(WeirError):
        lab.load(path)


@examples(200, data=as_bytes(as_toml([scenario("migration.toml")])))
def test_migration_files_do_not_panic(tmp_path_factory, data):
    assume(small(_toml(data), {"pods": 8}))
    path = tmp_path_factory.getbasetemp() / "migration.toml"
    path.write_bytes(data)
    with suppress(WeirError):
        migration.load(path)


def _toml(data):
    with suppress(ValueError, RecursionError):
        return tomllib.loads(data.decode())


@examples(200, data=as_bytes(as_toml([scenario("deadlines.toml")])))
def test_demonstrations_do_not_panic(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    (folder / "four-sites.toml").write_text((SCENARIOS / "four-sites.toml").read_text())
    (folder / "plan.toml").write_bytes(data)
    with suppress(WeirError):
        delivery_plan.load(folder / "plan.toml")


@examples(300, text=texts | st.from_regex(r"-?\d+(\.\d+)?(e\d+)? ?[A-Za-z/]*", fullmatch=True))
def test_quantities_do_not_panic(text):
    for quantity in (Time, Rate, Bytes):
        with suppress(WeirError):
            quantity(text)


@examples(150, ids=st.lists(texts | st.sampled_from(["002-fig-3.5", "004-fig-3.6"]), max_size=3))
def test_ids_of_reproduced_results(ids):
    with suppress(WeirError):
        assert all(row.id in ids for row in reproduced(ids)) or not ids


@examples(150, url=texts | st.from_regex(r"[a-z]{0,3}:?/{0,2}[\w.\[\]:]*:\d*/?"))
def test_schedulers(url):
    # One that could be is not called here.
    assume(not cluster._ADDRESS.fullmatch(url))
    with pytest.raises(WeirError, match="not a scheduler's address"):
        next(compute([], scheduler=url))


RECORDS = [json.loads((page.committed() / "reproduction.json").read_text())[:2]]


@examples(150, text=as_json(RECORDS))
def test_records_do_not_panic(tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp()
    (folder / "reproduction.json").write_text(text)
    with suppress(WeirError):
        page.render(page.load(folder), folder)


@pytest.mark.parametrize("depth", [90, 900, 100_000])
@pytest.mark.parametrize("loader", [lab.parse, migration.parse])
def test_toml_nested_deeply_is_refused(loader, depth):
    with pytest.raises(BadInput):
        loader(f"lab = {'[' * depth}{']' * depth}")


@pytest.mark.parametrize("depth", [90, 900, 100_000])
@pytest.mark.parametrize(
    "loader",
    [
        simulate_study,
        deadline_figures,
        Calendar.restore,
        Emulator,
        lambda text: Calendar(text, "fixed", Time("1 s")),
        lambda text: deadline_run(text, "weir", [1]),
        lambda text: MigrationProblem(json.dumps(PAIR), text),
    ],
)
def test_json_nested_deeply_is_refused(loader, depth):
    with pytest.raises(BadInput):
        loader("[" * depth + "]" * depth)


def test_what_is_spoilt_was_sound(tmp_path):
    """Else the tests above would look at the first wrong key only."""
    for network in NETWORKS:
        Calendar(json.dumps(network), "local-ljf", Time("1 s"))
    for document in NETWORK_FILES:
        (tmp_path / "network.json").write_text(json.dumps(document))
        load_network(tmp_path / "network.json")
    for document in STUDIES:
        assert len(simulate_study(json.dumps(document))) == 50
    for document in HEADROOM:
        assert simulate_headroom(json.dumps(document)).flows > 0
    for document in CALENDARS:
        calendar_study(json.dumps(document))
    assert len(simulate_trace(TRACE)) == 3
    for document in SETTINGS:
        deadline_run(json.dumps(document), "weir", [1])
    for document in TREES:
        deadline_fat_tree(json.dumps(document), "weir", [1])
    for document in READINGS:
        deadline_figures(json.dumps(document))
    for document in EMULATIONS:
        Emulator(json.dumps(document))
    for document in LIVE:
        LiveApplication(json.dumps(document))
    for document in LABS:
        lab.parse(toml(document))
    (tmp_path / "migration.toml").write_text(toml(scenario("migration.toml")))
    migration.load(tmp_path / "migration.toml")
    (tmp_path / "four-sites.toml").write_text(toml(scenario("four-sites.toml")))
    (tmp_path / "plan.toml").write_text(toml(scenario("deadlines.toml")))
    delivery_plan.load(tmp_path / "plan.toml")
    (tmp_path / "reproduction.json").write_text(json.dumps(RECORDS[0]))
    page.load(tmp_path)


@examples(100, value=values)
def test_what_is_no_text_is_refused_by_type(value):
    assume(not isinstance(value, str))
    for loader in (simulate_study, simulate_trace, Calendar.restore, deadline_figures, Emulator):
        with pytest.raises(TypeError):
            loader(value)
