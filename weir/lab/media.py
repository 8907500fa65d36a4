"""Wireless and lossless links in scenario files: what they share with others, beside the wired.

Whether a value can be right is decided by the core (`link_refusal`), as with queues. The simulator
has all of them, a lab has wired and wireless ones (`require_live`).
"""

import json
from collections.abc import Mapping
from typing import Any

from weir import Bytes, Time
from weir._core import link_refusal
from weir.errors import BadInput
from weir.lab.scenario import Channel, Credits, Direction, RelayTraffic, Scenario, Wlan
from weir.lab.wiring import channel_config, direction_config
from weir.source import Table, flag, one_of, positive, whole

STANDARDS = ("802.11b", "802.11a", "802.11g")
_KINDS = ("wired", "wlan", "credits")
_INPUTS = ("voq", "fifo")
_UNITS = ("_bps", "_ns", "_bytes")
_COUNT_MAX = 2**32 - 1
_MARKING_MAX = 2**16 - 1


def read_channel(table: Table, name: str) -> Channel:
    """One entry of `[channels]`; BadInput when there can be no such channel."""
    channel = Channel(
        name,
        table.require("standard", one_of(*STANDARDS)),
        table.take("cw_min", whole(0, _COUNT_MAX), None),
        table.take("cw_max", whole(0, _COUNT_MAX), None),
        table.take("retry_limit", whole(0, _COUNT_MAX), Channel.retry_limit),
        table.take("airtime_fairness", flag, Channel.airtime_fairness),
    )
    table.close()
    _refuse(table, link_refusal(_shared(channel), None, 0))
    return channel


def read_medium(table: Table, channels: Mapping[str, Channel]) -> Wlan | Credits | None:
    """What the `kind` of a `[[link]]` says; None for a wired one."""
    kind = table.take("kind", one_of(*_KINDS), "wired")
    if kind == Wlan.kind:
        if not channels:
            raise table.error("kind", "there are no [channels] for it")
        return Wlan(table.require("channel", one_of(*channels)))
    if kind == Credits.kind:
        return Credits(
            table.require("buffer", positive(Bytes)),
            table.take("input", one_of(*_INPUTS), Credits.input),
            table.take("marking", whole(0, _MARKING_MAX), None),
            table.take("manager", positive(Time), None),
        )
    return None


def refuse_direction(
    table: Table,
    medium: Wlan | Credits | None,
    channels: Mapping[str, Channel],
    direction: Direction,
    mtu: int,
) -> None:
    """BadInput, at its line, when a direction read from `table` cannot be of this medium."""
    if medium is None:
        return
    if isinstance(medium, Wlan):
        shared = _shared(channels[medium.channel])
    else:
        shared = json.dumps(medium_config(medium))
    _refuse(table, link_refusal(shared, json.dumps(direction_config(direction)), mtu))


def _shared(channel: Channel) -> str:
    return json.dumps({"kind": Wlan.kind, **channel_config(channel)["config"]})


def _refuse(table: Table, refused: tuple[str, str] | None) -> None:
    if refused:
        key, reason = refused
        for unit in _UNITS:
            key = key.removesuffix(unit)
        raise table.error(key, f"{key}: {reason}")


def medium_config(medium: Wlan | Credits | None) -> dict[str, Any]:
    """The medium of a link as the simulator reads it."""
    if medium is None:
        return {"kind": "wired"}
    if isinstance(medium, Wlan):
        return {"kind": medium.kind, "channel": medium.channel}
    config: dict[str, Any] = {
        "kind": medium.kind,
        "buffer_bytes": medium.buffer.count,
        "input": medium.input,
    }
    if medium.marking is not None or medium.manager is not None:
        looks_ns = medium.manager.ns if medium.manager else None
        config["control"] = {"marking_rate": medium.marking, "manager_ns": looks_ns}
    return config


def require_live(scenario: Scenario) -> None:
    """BadInput when a scenario has a link, or a relay, that a lab cannot bring up."""
    for traffic in scenario.traffic:
        if isinstance(traffic, RelayTraffic):
            raise BadInput(
                f'traffic {traffic.name}: kind = "relay" exists in the simulator only, where a lab '
                f"has programs (weir relay); run the file by weir sim"
            )
    for link in scenario.links:
        if isinstance(link.medium, Credits):
            raise BadInput(
                f'link {link.name}: kind = "{link.medium.kind}" exists in the simulator only, a '
                f"lab has wired and wireless links; run the file by weir sim"
            )
        for end in link.ends:
            if isinstance(link.medium, Wlan) and scenario.node(end).switch:
                raise BadInput(
                    f'link {link.name}: kind = "{link.medium.kind}" ends at switch {end}, which '
                    f"has no radio in a lab; put a router in its place, or between"
                )
