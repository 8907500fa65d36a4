"""Calendars compared: policies on the load of the Calibers evaluation, on networks from anywhere.

`docs/policies.md` says what the policies are and what the figures came to.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from weir import extras, signals
from weir._core import CalendarFigures, calendar_study, calendar_study_policies, g_scale
from weir.calendar.network import load_network
from weir.calendar.published_paths import published_paths as paths_of
from weir.errors import BadInput

POLICIES = tuple(calendar_study_policies())
_CAPACITY_BPS = 10_000_000_000
_REQUESTS_MAX, _EPOCHS_MAX = 10_000_000, 100_000_000
"""Each request is kept, some hundred bytes; an epoch takes a microsecond or more."""


@dataclass(frozen=True, slots=True)
class Load:
    """Requests between random pairs of nodes (000-spec section 4.6).

    Attributes:
        rate_per_s: of Poisson arrivals, over the whole network.
        requests: how many come.
        mean_rate_bps: of the exponential rates that the deadlines ask for; rate times time to the
            deadline is the size.
        mean_span_s: of the exponential times from start to deadline.
        ahead_s: how far ahead of their start requests come, in the mean; all at once if 0.
    """

    rate_per_s: float
    requests: int = 30_000
    mean_rate_bps: float = 100e6
    mean_span_s: float = 3600.0
    ahead_s: float = 0.0

    def workload(self, seed: int, shortest_s: float = 0.0) -> dict[str, Any]:
        """The workload as the simulator reads it; no time to a deadline is below `shortest_s`."""
        spans: dict[str, Any] = {"exponential": {"mean": self.mean_span_s}}
        if shortest_s:
            spans = {"shifted": {"by": shortest_s, "of": spans}}
        ahead = {"ahead_s": {"exponential": {"mean": self.ahead_s}}} if self.ahead_s else {}
        return ahead | {
            "seed": seed,
            "flows": self.requests,
            "arrivals": {"poisson": {"rate_per_s": self.rate_per_s}},
            "sizes": {"rate_bps": {"exponential": {"mean": self.mean_rate_bps}}},
            "deadlines": {"after_s": spans},
        }


def run(
    network: Mapping[str, Any],
    policy: str,
    load: Load,
    seed: int,
    *,
    epoch_s: float = 180.0,
    published_clock: bool = False,
    published_paths: bool = False,
) -> CalendarFigures:
    """One run of one policy.

    Args:
        network: as `named_network` gives it.
        policy: one of `POLICIES`.
        load: the requests.
        seed: of everything random.
        epoch_s: between redistributions; the slot of policies that have slots.
        published_clock: as the simulator behind the published figures ran: one second of the
            flows' time per request, two gaps drawn for each, decisions at the ends of epochs, no
            deadline nearer than an epoch. Whoever plans over time keeps its own steps.
        published_paths: of equally short paths those of that simulator; for the five policies of
            Calibers, which send on one path.

    Raises:
        BadInput: what cannot be, by name, or would end in neither time nor memory.
    """
    _check_size(load, epoch_s, published_clock)
    study = {
        "network": network,
        "policy": policy,
        "epoch_s": epoch_s,
        "clock": "published" if published_clock else "true",
        "paths": paths_of(network) if published_paths else [],
        "workload": load.workload(seed, epoch_s if published_clock else 0.0),
    }
    try:
        text = json.dumps(study, allow_nan=False)
    except ValueError:
        raise BadInput(f"a number of {load} or of the network is not finite") from None
    return signals.beside(lambda: calendar_study(text))


def _check_size(load: Load, epoch_s: float, published_clock: bool) -> None:
    if load.requests > _REQUESTS_MAX:
        raise BadInput(f"{load.requests} requests: up to {_REQUESTS_MAX} are simulated")
    per_epoch = load.rate_per_s * epoch_s
    if not 0 < per_epoch < math.inf:
        return  # no load: the engine says what is wrong
    # The published clock begins an epoch unless two gaps, one after the other, end within this one.
    small = per_epoch < 1e-4
    share = per_epoch**2 / 2 if small else 1 - (1 + per_epoch) * math.exp(-per_epoch)
    epochs = load.requests / max(share if published_clock else per_epoch, 1e-300)
    if epochs > _EPOCHS_MAX:
        raise BadInput(
            f"{load.requests} requests at {load.rate_per_s:g}/s take about {epochs:.1e} epochs of "
            f"{epoch_s:g} s, and up to {_EPOCHS_MAX:.0e} are simulated: a longer epoch is needed"
        )


def named_network(name: str, capacity_bps: int = _CAPACITY_BPS) -> dict[str, Any]:
    """A network in the simulator's form.

    Args:
        name: `g-scale`; a topology of topohub such as `sndlib/geant` or `topozoo/Abilene`, every
            link in both directions; or the path of a network file (`weir.calendar.network`).
        capacity_bps: of each direction of each link of a topohub topology.

    Raises:
        BadInput: there is no such file or network, or the file does not hold one.
        Unsupported: topohub is not installed.
    """
    if name == "g-scale":
        return dict(json.loads(g_scale()))
    if Path(name).suffix in (".json", ".toml"):
        return dict(json.loads(load_network(Path(name)).engine_json()))
    return from_node_link(name, _topohub(name), capacity_bps)


def _topohub(name: str) -> dict[str, Any]:
    with extras.named():
        # Read here because topohub.get leaves the file open.
        file = resources.files("topohub").joinpath(f"data/{name}.json")
    try:
        return dict(json.loads(file.read_text()))
    except (OSError, ValueError):
        known = "g-scale, a .json or .toml file, or a key of topohub such as sndlib/geant"
        raise BadInput(f"there is no network {name!r}: {known}") from None


def from_node_link(name: str, graph: Mapping[str, Any], capacity_bps: int) -> dict[str, Any]:
    """An undirected node-link graph (that of NetworkX and topohub) as a network of duplex links.

    Parallel edges count once. `name` is for messages.

    Raises:
        BadInput: an edge to an unknown node or from a node to itself, nodes that are not joined,
            or a capacity that cannot be.
    """
    if capacity_bps <= 0:
        raise BadInput(f"{name}: a capacity of {capacity_bps} bit/s; it must be above 0")
    try:
        nodes = {node["id"]: str(node["id"]) for node in graph["nodes"]}
        edges = dict.fromkeys((edge["source"], edge["target"]) for edge in graph["edges"])
    except KeyError as error:
        raise BadInput(f"{name}: not a node-link graph: {error} is missing") from None
    except TypeError as error:
        raise BadInput(f"{name}: not a node-link graph: {error}") from None
    ends: dict[frozenset[Any], None] = {}
    for a, b in edges:
        if a not in nodes or b not in nodes:
            outside = b if a in nodes else a
            raise BadInput(f"{name}: edge {a}-{b} ends at {outside}, which is not one of its nodes")
        if a == b:
            raise BadInput(f"{name}: edge {a}-{b} joins a node with itself")
        ends[frozenset((a, b))] = None
    links = [
        {"name": f"{x}-{y}", "from": x, "to": y, "capacity_bps": capacity_bps}
        for pair in ends
        for a, b in [sorted(nodes[node] for node in pair)]
        for x, y in [(a, b), (b, a)]
    ]
    _check_joined(name, list(nodes.values()), links)
    return {"nodes": list(nodes.values()), "links": links}


def _check_joined(name: str, nodes: list[str], links: list[dict[str, Any]]) -> None:
    reached, frontier = set(nodes[:1]), nodes[:1]
    while frontier:
        at = frontier.pop()
        beyond = {link["to"] for link in links if link["from"] == at} - reached
        reached |= beyond
        frontier.extend(beyond)
    if apart := [node for node in nodes if node not in reached]:
        raise BadInput(f"{name}: node {apart[0]} is not joined with node {nodes[0]}")
