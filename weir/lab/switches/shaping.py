"""Classes on a switch's ports: Linux's HTB by DSCP, since OpenFlow's set_queue does nothing here.

Open vSwitch's userspace datapath sends through the kernel's device, and so through what `tc` has
put there, but loses the queue that a rule has set. The code point stays in the packet.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weir.lab.scenario import Direction, PortClass
from weir.lab.switching import class_limit

ROOT, _FIRST = 1, 0x10
_ETHERNET_B = 14
# What a burst has put into the emulated queue is out of it again in half a second.
_OF_THE_LINK = 0.995


def class_id(place: int) -> str:
    """What `tc` calls the class of this place among the scenario's, from 0."""
    return f"{ROOT}:{_FIRST + place:x}"


def commands(device: str, way: Direction, mtu: int, classes: Sequence[PortClass]) -> list[str]:
    """What `tc -batch` reads to give a port its classes; nothing for a link without a rate.

    The port sends at a little less than the link's rate, so that packets wait here and not in the
    emulated queue; each class has an equal part of that queue's limit.
    """
    if way.rate is None or not classes:
        return []
    link_bps = int(way.rate.bit_per_s * _OF_THE_LINK)
    rest = next(place for place, one in enumerate(classes) if not one.codepoints)
    limit = class_limit(way, mtu, len(classes))
    # Rates are of IP packets, as all are; the device counts frames.
    lines = [
        f"qdisc add dev {device} root handle {ROOT}: stab overhead -{_ETHERNET_B} "
        f"linklayer ethernet htb default {_FIRST + rest:x}",
        _class(device, f"{ROOT}:", f"{ROOT}:{ROOT}", link_bps, link_bps, 0, mtu),
    ]
    for place, one in enumerate(classes):
        rate, ceiling = one.bounds_bps(link_bps)
        named = class_id(place)
        lines += [
            _class(device, f"{ROOT}:{ROOT}", named, rate, ceiling, place, mtu),
            f"qdisc add dev {device} parent {named} handle {_FIRST + place:x}: bfifo "
            f"limit {limit}b",
        ]
        lines += [
            f"filter add dev {device} parent {ROOT}: protocol ip prio 1 u32 "
            f"match ip dsfield {code << 2:#x} 0xfc flowid {named}"
            for code in one.codepoints
        ]
    return lines


def counters(shown: str, devices: Iterable[str], classes: Sequence[PortClass]) -> Mapping[str, Any]:
    """What each class of each device did, from `tc -s -j qdisc show`."""
    handles = {f"{_FIRST + place:x}:": one.name for place, one in enumerate(classes)}
    wanted = set(devices)
    found: dict[str, list[dict[str, Any]]] = {device: [] for device in wanted}
    for one in json.loads(shown or "[]"):
        name = handles.get(one.get("handle", ""))
        if one.get("dev") in wanted and one.get("kind") == "bfifo" and name:
            found[one["dev"]].append(
                {
                    "name": name,
                    "sent_packets": one["packets"],
                    "sent_bytes": one["bytes"],
                    "dropped": one["drops"],
                    "queued_bytes": one["backlog"],
                }
            )
    return found


def _class(
    device: str, parent: str, named: str, rate: int, ceiling: int, priority: int, mtu: int
) -> str:
    # Two milliseconds' worth, at least two packets: enough for a timer that is late once.
    bursts = [max(2 * (mtu + _ETHERNET_B), bps // 8 // 500) for bps in (rate, ceiling)]
    return (
        f"class add dev {device} parent {parent} classid {named} htb rate {rate}bit "
        f"ceil {ceiling}bit burst {bursts[0]}b cburst {bursts[1]}b quantum {10 * mtu} "
        f"prio {priority}"
    )
