"""Row 003-fig-2.17: Multipath TCP at the client, plain TCP at the server."""

import socket

import pytest
from rig import lab_lacks

from studies.works.row import Verdict
from studies.works.w003.ch2_multipath_live import ROWS, run

(ROW,) = ROWS


def lacks():
    """What a client of several paths needs and is not here; none if nothing is."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP).close()
    except OSError as error:
        return f"no Multipath TCP: {error}"
    return lab_lacks()


def found(server=17.1, second=5.7, during=11.4, after=17.1):
    """A plain run, and one that is cut from 10 s to 20 s."""

    def step(at_s, rate, paths):
        return {"at_s": float(at_s), "server": rate, "paths": paths}

    plain = [step(at, 11.5, [11.5, 0.0]) for at in range(1, 11)]
    cut = [step(at, server, [11.4, second]) for at in range(1, 11)]
    cut += [step(at, during, [during, 0.0]) for at in range(11, 21)]
    cut += [step(at, after, [11.4, after - 11.4]) for at in range(21, 37)]
    return [plain, cut]


def test_the_row_holds_where_the_server_has_the_sum_of_both_paths():
    assert len(ROW.points(True)) == 2
    assert ROW.judge(found()).verdict == Verdict.MATCHES


@pytest.mark.parametrize(
    "spoilt", [{"server": 15.0}, {"server": 12.0, "second": 0.6}, {"during": 5.0}, {"after": 12.0}]
)
def test_it_differs_where_bytes_or_a_path_are_lost(spoilt):
    assert ROW.judge(found(**spoilt)).verdict == Verdict.DIFFERS


@pytest.mark.skipif(lacks() is not None, reason=f"cannot run: {lacks()}")
def test_a_client_of_two_paths_has_both_through_a_relay():
    steps = run(protocol="mptcp", seconds=5, seed=1)
    # Each path has a part, which it has only if the relay's end of the connection knows of both.
    assert all(max(step["paths"][path] for step in steps) > 0.5 for path in (0, 1))
    assert sum(step["server"] for step in steps) > 0
