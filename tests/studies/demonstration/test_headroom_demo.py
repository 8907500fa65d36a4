"""`weir demo headroom`: what is made of counts, and each piece once on real switches."""

import json

import pytest
from rig import lab_lacks, needs_ovs

pytest.importorskip("os_ken")

from studies.demonstration import elephants as live
from studies.demonstration.elephants import Seen
from studies.demonstration.headroom import Headroom
from studies.rig.provider import DYNAMIC, PLAIN, STATIC, Elephant, Provider
from weir.calendar.agents.enforcer import Pair, TrafficClass
from weir.calendar.network import parse_network


def joined():
    """Two hosts at a triangle of switches."""
    nodes = {"h1": {"address": "10.0.0.1"}, "h2": {"address": "10.0.0.2"}}
    nodes |= {name: {"datapath": f"{at:x}"} for at, name in enumerate(("s1", "s2", "s3"), 1)}
    cables = [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s1", "s3"), ("s3", "s2")]
    links = [{"name": f"{a}-{b}", "ends": [a, b], "capacity": "20 Mbit/s"} for a, b in cables]
    return parse_network({"nodes": nodes, "links": links})


def test_a_second_elephant_goes_round_and_both_are_marked_from_host_to_host():
    provider = Provider(DYNAMIC, joined(), 1)
    assert provider.announce(0, Elephant("h1", "h2", 7001)) == ["s1-s2.forward"]
    around = ["s1-s3.forward", "s3-s2.forward"]
    assert provider.announce(1, Elephant("h1", "h2", 7002)) == around
    second = provider.allotted[Pair("10.0.0.1", "10.0.0.2", 7002)]
    assert second.path == ("h1-s1.forward", *around, "s2-h2.forward")
    assert second.traffic_class is TrafficClass.ELEPHANT and second.traffic_class.dscp == 8


def test_an_elephant_that_is_over_leaves_its_links_to_the_next():
    provider = Provider(DYNAMIC, joined(), 1)
    first, second = (Elephant("h1", "h2", port, 1000, 10**6) for port in (7001, 7002))
    provider.announce(0, first)
    provider.over(0)
    assert provider.announce(1, second) == ["s1-s2.forward"]
    assert [*provider.allotted] == [Pair("10.0.0.1", "10.0.0.2", 7002)]


@pytest.mark.parametrize(("service", "marked"), [(PLAIN, 0), (STATIC, 2)])
def test_without_dynamic_paths_all_elephants_take_the_fewest_links(service, marked):
    provider = Provider(service, joined(), 1)
    for at in range(2):
        assert provider.announce(at, Elephant("h1", "h2", 7001 + at)) == ["s1-s2.forward"]
    assert len(provider.allotted) == marked


def done(service, arrived, taken, links):
    return Seen(service, "done", taken, arrived, sent=1000, payload_bytes=1000, links_in_use=links)


def shown(static_loss):
    """The demonstration as it would be after runs of two steps, half a second each."""
    demo = Headroom(seed=7)
    demo._runs = [
        done(PLAIN, [[200, 480], [200, 500]], [[125_000, 250_000]], 2),
        done(STATIC, [[200, 500 - static_loss], [200, 500]], [[125_000, 250_000]], 2),
        done(DYNAMIC, [[200, 500], [200, 500]], [[125_000, 250_000], [250_000, 750_000]], 9),
    ]
    return demo


def test_losses_are_of_all_that_was_sent_and_the_gain_is_of_mean_goodputs():
    figures = shown(0).figures()
    assert figures["best_effort_loss_percent_plain"] == pytest.approx(2.0)
    assert figures["best_effort_loss_percent_headroom"] == 0.0
    assert figures["elephant_sh_bps"] == 2_000_000
    assert figures["elephant_dh_bps"] == 4_000_000
    assert figures["gain_dh_over_sh"] == 2.0
    assert (figures["links_in_use_sh"], figures["links_in_use_dh"]) == (2, 9)


@pytest.mark.parametrize(("static_loss", "holds"), [(0, True), (2, True), (5, False)])
def test_it_holds_while_best_effort_loses_a_tenth_of_what_it_lost(static_loss, holds):
    assert shown(static_loss).holds() == holds


def test_the_picture_says_what_each_run_had():
    picture = shown(0).picture()
    assert picture.startswith("<svg") or "<svg" in picture
    for words in ("elephants as best effort", "elephants as SH", "elephants as DH", "2.00 %"):
        assert words in picture
    json.dumps(shown(0).facts())


def test_rates_of_all_are_added_step_by_step():
    assert live.rates_bps([[1000, 3000], [500]]) == [8 * 1500 / 0.5, 8 * 2000 / 0.5]
    assert live.rates_bps([[2]], 1000) == [8 * 2000 / 0.5]


@needs_ovs
@pytest.mark.skipif(lab_lacks() is not None, reason=f"no lab: {lab_lacks()}")
def test_elephants_of_a_live_run_take_the_paths_that_were_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    seen = Seen(DYNAMIC)
    ways = [Elephant("b1", "c1", 7001), Elephant("b1", "c1", 7002)]
    live.carry_out(seen, ways, 3.0, 1, lambda: None)
    assert seen.state == "done"
    assert 0 < sum(counts[-1] for counts in seen.arrived) <= seen.sent
    assert seen.paths[0] == ["B-C.forward"] and "E-F.backward" in seen.paths[1]
    for path, counts in zip(seen.paths, seen.taken, strict=True):
        assert counts[-1] > 0
        for link in path:
            assert seen.carried_bytes[link] > counts[-1]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["lock"]
