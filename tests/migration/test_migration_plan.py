"""Planning through Python: the worked cases of 003-spec 5.7, and exhaustive search as oracle."""

import json

import pytest

from studies.works.w003.ch5_migration import drawn, with_random_paths, worked
from studies.works.w003.ch5_models import vmlm, vmlm_simplified
from weir.errors import Refused
from weir.migration import load, plan
from weir.migration.fat_tree import fat_tree
from weir.migration.programs import Instance

# Work 003 section 5.2.2 with the corrections D-5 to D-7 of the specification.
OPTIMA = {1: 152, 2: 220, 3: 290, 4: 220}


@pytest.mark.parametrize("case", OPTIMA)
@pytest.mark.parametrize("model", [vmlm, vmlm_simplified])
def test_the_printed_models_have_the_optima_of_the_worked_cases(case, model):
    problem = worked(case)
    solution = model(Instance.of(problem, problem.engine()), 14).solve(120)
    assert solution.proven
    assert round(solution.objective) == OPTIMA[case]


@pytest.mark.parametrize("case", OPTIMA)
def test_the_compact_model_proves_the_worked_cases(case):
    outcome = plan(worked(case), "milp", time_limit_s=60)
    assert (outcome.degradation, outcome.bound) == (OPTIMA[case], OPTIMA[case])


@pytest.mark.parametrize(
    ("planner", "expected"),
    [
        ("tcp", [264, 320, 360, 268]),
        ("greedy", [152, 220, 300, 230]),
    ],
)
def test_baselines_are_as_the_specification_works_them_out(planner, expected):
    found = [plan(worked(case), planner, time_limit_s=0.2) for case in OPTIMA]
    assert [outcome.degradation for outcome in found] == expected
    assert all(outcome.bound <= OPTIMA[case] for case, outcome in enumerate(found, 1))


def test_an_eight_pod_fat_tree_is_as_large_as_the_work_says():
    problem = drawn(1, 20)
    assert len(problem.nodes) == 208 and len(problem.links) == 384
    far = [vm for vm in problem.vms if vm.source.split("-")[1] != vm.destination.split("-")[1]]
    routes = dict(zip((vm.name for vm in problem.vms), problem.engine().routes(), strict=True))
    assert far and all(len(routes[vm.name]) == 16 for vm in far)


def test_aggregation_switches_join_their_own_cores():
    _, links = fat_tree(4, drawn(1, 2).links[0].capacity)
    cores = [end for link in links for end in link.ends if link.ends[0] == "aggregation-3-2"]
    assert [core for core in cores if core.startswith("core")] == ["core-3", "core-4"]


@pytest.mark.parametrize("seed", range(3))
def test_planners_rank_as_they_must_on_drawn_instances(seed):
    problem = with_random_paths(drawn(seed, 8, pods=4), seed)
    found = {
        name: plan(problem, name, time_limit_s=5) for name in ("tcp", "greedy", "weir", "milp")
    }
    bound = max(outcome.bound for outcome in found.values())
    assert all(outcome.degradation >= bound for outcome in found.values())
    assert found["weir"].degradation <= found["greedy"].degradation


def test_the_integer_program_agrees_with_the_printed_full_model_on_growth_and_path_choice():
    problem = load_text(
        """
        step = "8 s"
        nodes = ["a", "b", "x", "y"]
        [[links]]
        ends = ["a", "x"]
        capacity = "4 Mbit/s"
        [[links]]
        ends = ["a", "y"]
        capacity = "6 Mbit/s"
        [[links]]
        ends = ["x", "b"]
        capacity = "5 Mbit/s"
        [[links]]
        ends = ["y", "b"]
        capacity = "5 Mbit/s"
        [[vms]]
        name = "one"
        source = "a"
        destination = "b"
        size = "20 MB"
        cost = [3, 1, 4, 1, 5]
        growth = ["1 MB", "0 B", "2 MB", "0 B"]
        [[vms]]
        name = "two"
        source = "a"
        destination = "b"
        size = "12 MB"
        cost = [2, 7, 1]
        [[vms]]
        name = "three"
        source = "a"
        destination = "b"
        size = "9 MB"
        cost = 4
        """
    )
    literal = vmlm(Instance.of(problem, problem.engine()), 16).solve(120)
    outcome = plan(problem, "milp", time_limit_s=60)
    assert literal.proven
    assert outcome.degradation == outcome.bound == round(literal.objective)
    own = plan(problem, "weir", time_limit_s=1)
    assert own.bound <= outcome.degradation <= own.degradation


def test_a_plan_beyond_the_horizon_is_refused_with_both_numbers(tmp_path):
    file = tmp_path / "short.toml"
    file.write_text(
        'step = "8 s"\nhorizon = 3\nnodes = ["a", "b"]\n[[links]]\nends = ["a", "b"]\n'
        'capacity = "1 Mbit/s"\n[[vms]]\nname = "v"\nsource = "a"\ndestination = "b"\n'
        'size = "4 MB"\n'
    )
    with pytest.raises(Refused, match="needs 4 steps and the horizon is 3"):
        plan(load(file), "greedy")


def test_a_horizon_that_only_another_order_meets_is_met_by_the_integer_program(tmp_path):
    # By cost the first goes first and the second, slow on its access link, ends in step 10; the
    # other way about all could be over after 7.
    text = """
        step = "8 s"
        horizon = HORIZON
        nodes = ["a", "b", "m", "z"]
        [[links]]
        ends = ["a", "m"]
        capacity = "10 Mbit/s"
        [[links]]
        ends = ["b", "m"]
        capacity = "5 Mbit/s"
        [[links]]
        ends = ["m", "z"]
        capacity = "10 Mbit/s"
        [[vms]]
        name = "dear"
        source = "a"
        destination = "z"
        size = "40 MB"
        cost = 100
        [[vms]]
        name = "cheap"
        source = "b"
        destination = "z"
        size = "30 MB"
        """
    problem = load_text(text.replace("HORIZON", "8"))
    with pytest.raises(Refused):
        plan(problem, "greedy", time_limit_s=0.1)
    for planner in ("milp", "weir"):
        outcome = plan(problem, planner, time_limit_s=20)
        # The dear one in step 6, when the cheap one has 10 MB left for two steps.
        assert (outcome.degradation, outcome.bound, outcome.makespan) == (608, 608, 8)
    with pytest.raises(Refused, match="no plan exists"):
        plan(load_text(text.replace("HORIZON", "6")), "milp", time_limit_s=20)


def test_the_same_seed_and_steps_give_the_same_plan():
    from weir._core import MigrationSearch

    plans = []
    for _ in range(2):
        search = MigrationSearch(drawn(5, 12).engine(), 7)
        for _ in range(5):
            search.improve(300)
            search.tighten(5)
        plans.append((json.loads(search.plan()), search.bound))
    assert plans[0] == plans[1]


def load_text(text):
    from weir.migration import parse

    return parse(text)
