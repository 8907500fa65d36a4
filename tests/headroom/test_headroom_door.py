"""Headroom services through the Python door: worked numbers and bad input."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir import Bytes, Rate
from weir._core import (
    HeadroomProvider,
    default_paths,
    headroom_expectation,
    simulate_headroom,
    six_routers,
)
from weir.errors import BadInput


def study(**changes):
    workload = {
        "seed": 1,
        "flows": 300,
        "arrivals": {"poisson": {"rate_per_s": 0.1}},
        "sizes": {"bytes": {"pareto": {"shape": 4, "minimum": 15e9}}},
    }
    document = {"study": {"network": json.loads(six_routers()), "workload": workload}}
    return json.dumps(document | changes)


def test_the_analytic_model_gives_the_stated_operating_point():
    found = headroom_expectation(0.034, 4, Bytes("1.5 GB"), Rate("600 Mbit/s"))
    assert found.flows == pytest.approx(5.861, abs=5e-4)
    assert found.throughput_bps == pytest.approx(102.4e6, abs=5e4)
    assert found.utilisation == pytest.approx(0.9067, abs=5e-5)
    shared = headroom_expectation(
        0.034, 1.5, Bytes("0.5 GB"), Rate("600 Mbit/s"), processor_sharing=True
    )
    # rho = 0.034/s x 1.5 GB x 8 / 600 Mbit/s.
    assert shared.flows == pytest.approx(0.68 / 0.32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.1, 4, Bytes("1.5 GB"), Rate("600 Mbit/s")), "of the headroom"),
        ((0.01, 2, Bytes("1.5 GB"), Rate("600 Mbit/s")), "shape"),
        ((float("nan"), 4, Bytes("1.5 GB"), Rate("600 Mbit/s")), "arrivals_per_s"),
        ((0.01, 4, Bytes("1.5 GB"), Rate("0 bit/s")), "headroom"),
    ],
)
def test_a_link_without_a_steady_state_is_bad_input(arguments, message):
    with pytest.raises(BadInput, match=message):
        headroom_expectation(*arguments)


def test_a_study_gives_a_sample_with_a_value_for_every_link():
    found = simulate_headroom(study())
    assert found.flows == 300
    assert found.links[:3] == ["A-B", "B-C", "C-D"]
    assert len(found.links) == len(found.utilisation) == len(found.occupancy) == 16
    assert 0 < found.detoured_share < 0.5
    assert simulate_headroom(study(service={"service": "static"})).detoured_share == 0


def test_default_paths_are_counted_by_link():
    pairs = dict(default_paths(six_routers()))
    assert sum(pairs.values()) == 46
    assert pairs["B-C"] == pairs["C-B"] == 6
    apart = {"nodes": ["a", "b"], "links": []}
    with pytest.raises(BadInput, match='no path from "a" to "b"'):
        default_paths(json.dumps(apart))


def test_what_cannot_be_is_bad_input_that_names_the_place():
    for changes, place in [
        ({"service": {"service": "quick"}}, "service.service"),
        ({"service": {"paths_max": 0}}, "candidate paths"),
        ({"limits_bps": {"constant": 0}}, "limits_bps.constant"),
        ({"study": {}}, "network"),
    ]:
        with pytest.raises(BadInput, match=place):
            simulate_headroom(study(**changes))
    one_way = json.loads(six_routers())
    one_way["links"] = one_way["links"][:8]
    one_way["links"] = [link for link in one_way["links"] if link["to"] != "A"]
    broken = json.loads(study())
    broken["study"]["network"] = one_way
    with pytest.raises(BadInput, match='no path from "B" to "A"'):
        simulate_headroom(json.dumps(broken))


@given(
    st.dictionaries(
        st.sampled_from(
            ["service", "measure", "ties", "paths_max", "hop_limit", "setup_ns", "other"]
        ),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-1, 2**65),
            st.floats(),
            st.sampled_from(["static", "merged", "rate", "weir", "random"]),
            st.dictionaries(st.sampled_from(["hops_more", "from_flows"]), st.integers(-1, 2**33)),
        ),
    )
)
def test_any_options_do_not_panic(options):
    with contextlib.suppress(BadInput):
        simulate_headroom(study(service=options))


def between(provider, flow):
    return provider.start(flow, "B", "C")


def test_a_provider_takes_the_default_path_unless_another_has_fewer_flows():
    """000-spec section 3.3.2 from B to C: the link, else over F and E."""
    provider = HeadroomProvider(six_routers())
    assert between(provider, 0) == ["B-C"]
    around = between(provider, 1)
    assert len(around) > 1 and "B-C" not in around
    assert between(provider, 2) == ["B-C"], "all have one flow: the default path"
    provider.end(0)
    provider.end(2)
    assert between(provider, 3) == ["B-C"]


def test_a_static_provider_takes_the_default_path_always():
    provider = HeadroomProvider(six_routers(), '{"service": "static"}')
    assert {tuple(between(provider, flow)) for flow in range(5)} == {("B-C",)}


def test_equal_seeds_decide_ties_alike():
    def paths(seed):
        provider = HeadroomProvider(six_routers(), '{"ties": "random"}', seed=seed)
        return [between(provider, flow) for flow in range(40)]

    assert paths(1) == paths(1) != paths(2)


def test_a_provider_refuses_what_cannot_be():
    provider = HeadroomProvider(six_routers())
    between(provider, 0)
    with pytest.raises(BadInput, match="flow 0 is already"):
        between(provider, 0)
    with pytest.raises(BadInput, match="flow 9 is not"):
        provider.end(9)
    with pytest.raises(BadInput, match="Z"):
        provider.start(1, "B", "Z")
    with pytest.raises(BadInput, match="maximum rate of 0"):
        provider.start(1, "B", "C", rate_max=Rate("0 bit/s"))
    with pytest.raises(BadInput, match="servize"):
        HeadroomProvider(six_routers(), '{"servize": "static"}')
