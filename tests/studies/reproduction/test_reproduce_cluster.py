"""Points on real worker processes: none lost, none changed, and clear words when it cannot be."""

import os
import signal

import pytest
from reproduce_points import deadly, digest, digests, idle, same

from weir.errors import BadInput, Unavailable
from weir.runs import cluster
from weir.runs.cluster import compute
from weir.runs.point import Point


def by_seed(pairs):
    return {point.arguments["seed"]: result.value["digest"] for point, result in pairs}


EXPECTED = {point.arguments["seed"]: digest(**point.arguments)["digest"] for point in digests(24)}


@pytest.mark.parametrize("workers", [1, 3])
def test_results_are_the_same_whatever_the_number_of_workers(workers):
    assert by_seed(compute(digests(24), workers=workers)) == EXPECTED


def test_a_killed_worker_loses_no_point():
    done, killed = [], None
    for point, result in compute(digests(24), workers=2):
        done.append((point, result))
        if killed is None:
            killed = result.value["pid"]
            os.kill(killed, signal.SIGKILL)
    assert by_seed(done) == EXPECTED
    # It died with work to do: somebody else did it, and it did no more.
    assert len(done) == 24
    assert sum(result.value["pid"] == killed for _, result in done) < 20


def test_a_point_that_kills_its_workers_is_named():
    with pytest.raises(Unavailable, match=r"every worker that was given reproduce_points\.deadly"):
        list(compute([Point(deadly, {})], workers=1))


@pytest.fixture(scope="module")
def running():
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as local:
        yield local


def test_a_running_cluster_is_used_and_left_running(running):
    for _ in range(2):
        assert by_seed(compute(digests(3), scheduler=running.scheduler_address)) == {
            seed: EXPECTED[seed] for seed in range(3)
        }


def test_seconds_are_those_of_a_core_and_not_of_waiting_for_one(running):
    ((_, result),) = compute([Point(idle, {"seconds": 1.0})], scheduler=running.scheduler_address)
    assert 0 <= result.seconds < result.value["took_s"]
    assert result.value["took_s"] >= 1.0 > result.seconds


def test_results_of_another_version_are_not_taken(running, monkeypatch):
    monkeypatch.setattr(cluster, "code_version", lambda module: "another")
    with pytest.raises(Unavailable, match=r"run another version of reproduce_points\.same"):
        list(compute([Point(same, {"value": 1})], scheduler=running.scheduler_address))


def test_a_cluster_without_workers_is_said_to_have_none(monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr(cluster, "_PATIENCE_S", 3.0)  # the scheduler itself has to be reached
    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty,
        pytest.raises(Unavailable, match="has no workers"),
    ):
        list(compute(digests(1), scheduler=empty.scheduler_address))


def test_a_scheduler_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.5)
    with pytest.raises(Unavailable, match=r"cannot reach the scheduler tcp://127\.0\.0\.1:1:"):
        list(compute(digests(1), scheduler="tcp://127.0.0.1:1"))


@pytest.mark.parametrize(
    "url", ["", "localhost", "http://a:1", "tcp://a", "tcp://a:x", "tcp://a:1 "]
)
def test_what_is_no_address_is_named(url):
    with pytest.raises(BadInput, match="is not a scheduler's address"):
        list(compute(digests(1), scheduler=url))


def test_a_broken_point_raises_what_it_raised():
    with pytest.raises(TypeError, match="surplus"):
        list(compute([Point(same, {"value": 1, "surplus": 2})], workers=1))
