"""The paths of the public simulator of Calibers, against those of NetworkX 2.1 under Python 2.7.18.

The oracles were printed by that interpreter: `nx.shortest_path(G)` on G-scale with the edges in the
order of the simulator's `run-simulation.py`, and `d.keys()` of dicts filled in the order given.
"""

import itertools
import json

import pytest

from weir._core import g_scale
from weir.calendar.published_paths import _as_in_python_2, published_paths
from weir.calendar.study import Load, named_network, run
from weir.cli import main
from weir.errors import BadInput

# By source: the last node but one on the way to nodes 1 to 12.
BEFORE_THE_LAST = {
    1: (0, 1, 1, 3, 2, 3, 4, 4, 10, 8, 7, 10),
    2: (2, 0, 1, 5, 2, 5, 4, 4, 10, 8, 7, 10),
    3: (3, 1, 0, 3, 4, 3, 4, 4, 10, 8, 7, 10),
    4: (3, 5, 4, 0, 4, 8, 4, 4, 10, 8, 7, 10),
    5: (2, 5, 4, 5, 0, 5, 4, 4, 10, 8, 7, 10),
    6: (3, 5, 6, 8, 6, 0, 6, 6, 10, 8, 7, 10),
    7: (3, 5, 4, 7, 4, 7, 0, 7, 11, 8, 7, 11),
    8: (3, 5, 4, 8, 4, 8, 8, 0, 10, 8, 10, 10),
    9: (3, 5, 4, 8, 4, 8, 11, 10, 0, 9, 9, 10),
    10: (3, 5, 4, 8, 4, 8, 8, 10, 10, 0, 10, 10),
    11: (3, 5, 4, 7, 4, 7, 11, 10, 11, 11, 0, 11),
    12: (3, 5, 4, 8, 4, 8, 11, 10, 10, 12, 12, 0),
}


def test_the_paths_on_g_scale_are_those_of_networkx_under_python_2():
    found = {(path[0], path[-1]): path for path in published_paths(json.loads(g_scale()))}
    ends = itertools.permutations(range(1, 13), 2)
    assert set(found) == {(str(a), str(b)) for a, b in ends}
    for (source, to), path in found.items():
        before = BEFORE_THE_LAST[int(source)][int(to) - 1]
        assert int(path[-2]) == before, path
        if path[:-1] != [source]:
            assert path[:-1] == found[source, str(before)]


@pytest.mark.parametrize(
    ("put", "keys"),
    [
        ([1, 9, 17, 3], [1, 3, 17, 9]),
        ([12, 4, 20, 28], [4, 12, 20, 28]),
        ([7, 15, 6, 14], [15, 14, 6, 7]),
        ([5, 1, 9, 2, 10, 3], [1, 2, 3, 5, 9, 10]),
        ([40, 8, 0, 16, 32, 24, 33, 1], [32, 0, 1, 33, 40, 16, 8, 24]),
        (
            [20, 17, 14, 11, 8, 5, 2, 1000003, 999999937, 1000],
            [999999937, 2, 1000003, 5, 8, 11, 14, 17, 20, 1000],
        ),
    ],
)
def test_keys_have_the_order_of_python_2(put, keys):
    assert _as_in_python_2(put) == keys


@pytest.mark.parametrize("name", ["a", "01", "-1", "٣", "1000000000"])
def test_a_node_without_a_number_as_name_is_refused(name):
    with pytest.raises(BadInput, match=f"node '{name}'"):
        published_paths({"nodes": [name], "links": []})


def test_a_study_sends_on_them_if_asked_and_only_where_there_is_one_path(capsys):
    network, load = named_network("g-scale"), Load(2.0, 1500)
    own, published = (
        run(network, "fixed", load, 1, published_paths=asked).reject_rate for asked in (False, True)
    )
    assert own != published
    command = ["calendar", "study", "--rate", "2", "--requests", "1500", "--published-paths"]
    assert main([*command, "--policy", "fixed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["reject_rate"] == published
    assert main([*command, "--policy", "weir"]) == 2
    assert "paths: weir chooses its own" in capsys.readouterr().err
