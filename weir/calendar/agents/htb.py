"""Rates enforced by Linux's HTB, on a router's devices toward the shared network.

On each device stands an HTB: one class for each pair of hosts with active transfers, which may
send what the calendar has allotted them and 2 % more, and a class of lower priority for everything
else. A sender that ignores its rate fills its own class's queue and nothing else.

A class pays for what it has sent at the rate that it had then: at 8 kbit/s it is silent for 6 s
after a packet of 6000 bytes, and a new rate does not end that. So a pair whose low rate is raised
goes on in a fresh class.

Last comes a class for packets that say themselves that they may wait, whoever sends them: LE and
CS1. It takes whatever no other class needs at the moment, up to the device's rate.

The classes stay in the kernel when the agent dies; a new one puts fresh ones in their place.
"""

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from weir import Rate
from weir.calendar.agents.enforcer import LOWER_DSCPS, RATE_MIN_BPS, Allotment, Pair, TrafficClass
from weir.errors import BadInput, Unsupported

# Above the allotted rate: pacing at the source is exact, but packets come in small bursts.
CEILING_PER_RATE = 1.02
# HTB's rates end here (64 bit, but tc prints what it likes beyond).
RATE_MAX_BPS = 100_000_000_000
QUEUE_S = 0.05
QUEUE_BYTES_MIN = 65_536
# The largest packet (TCP segments that the kernel has joined), and the longest that a class may
# still be paying for it when its rate is raised.
PACKET_BITS_MAX = 8 * 65_536
DEBT_MAX_S = 0.1
_ROOT, _DEFAULT, _LOWER, _FIRST, _LAST = 1, 2, 3, 0x10, 0xFFF0
# Priorities of classes, the first served first; HTB has eight.
_PROMISED_FIRST, _THEN_OTHERS, _LOWEST = 0, 6, 7


@dataclass(frozen=True, slots=True)
class Device:
    """A device toward the shared network; the rates in bit/s bound everything on it."""

    name: str
    rate_bps: int = RATE_MAX_BPS
    default_bps: int = RATE_MAX_BPS


class Shaper:
    """An `Enforcer`: the HTB on some devices, kept at what is wanted with the fewest changes."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = list(devices)
        self._allotted: dict[Pair, Allotment] = {}
        self._minors: dict[Pair, int] = {}

    def install(self) -> None:
        """Puts an HTB with only the classes of all others on every device.

        Raises:
            BadInput: there is no such device.
            Unsupported: this process may not, or the kernel has no HTB.
        """
        for device in self._devices:
            # There may be none yet, so this one is allowed to fail.
            _tc([f"qdisc del dev {device.name} root"], forgiving=True)
            default_bps = min(device.default_bps, device.rate_bps)
            _tc(
                [
                    f"qdisc add dev {device.name} root handle 1: htb default {_DEFAULT:x}",
                    _class("add", device.name, _ROOT, device.rate_bps, device.rate_bps),
                    # The least that HTB can promise: everything else is lent by idle classes.
                    _class("add", device.name, _DEFAULT, RATE_MIN_BPS, default_bps, _THEN_OTHERS),
                    _leaf(device.name, _DEFAULT, default_bps),
                    _class("add", device.name, _LOWER, RATE_MIN_BPS, device.rate_bps, _LOWEST),
                    _leaf(device.name, _LOWER, device.rate_bps),
                    *_lower_filters(device.name),
                ]
            )
        self._allotted, self._minors = {}, {}

    def remove(self) -> None:
        """Takes the HTB away again."""
        for device in self._devices:
            _tc([f"qdisc del dev {device.name} root"], forgiving=True)

    def in_force(self) -> Mapping[Pair, Allotment]:
        """What every pair that has a class was allotted."""
        return self._allotted

    def apply(self, wanted: Mapping[Pair, Allotment]) -> None:
        """Makes the classes equal to `wanted`."""
        commands: list[str] = []
        for pair in self._allotted.keys() - wanted.keys():
            commands += self._removal(self._minors.pop(pair))
        for pair, allotment in wanted.items():
            before = self._allotted.get(pair)
            if before is None:
                commands += self._addition(pair, allotment)
            elif _may_owe(before, allotment):
                owing = self._minors[pair]
                commands += [*self._addition(pair, allotment), *self._removal(owing)]
            elif before != replace(allotment, path=before.path):
                minor = self._minors[pair]
                commands += [self._shaped("change", x, minor, allotment) for x in self._devices]
        if commands:
            _tc(commands)
        self._allotted = dict(wanted)

    def _addition(self, pair: Pair, allotment: Allotment) -> list[str]:
        """A new class for a pair, by which its packets go from now on."""
        taken = set(self._minors.values())
        minor = next((x for x in range(_FIRST, _LAST) if x not in taken), None)
        if minor is None:
            raise Unsupported(f"more than {_LAST - _FIRST} pairs of hosts at one edge")
        self._minors[pair] = minor
        commands = []
        for device in self._devices:
            commands += [
                self._shaped("add", device, minor, allotment),
                _leaf(device.name, minor, allotment.rate_bps),
                # A filter's priority is its own, so that it can be deleted by it.
                f"filter add dev {device.name} parent 1: {_pairs_packets(pair, minor)}"
                f" flowid 1:{minor:x}",
            ]
        return commands

    def _removal(self, minor: int) -> list[str]:
        commands = []
        for device in self._devices:
            commands += [
                f"filter del dev {device.name} parent 1: prio {minor}",
                f"class del dev {device.name} classid 1:{minor:x}",
            ]
        return commands

    def _shaped(self, verb: str, device: Device, minor: int, allotment: Allotment) -> str:
        rate_bps = min(allotment.rate_bps, device.rate_bps)
        ceiling_bps = max(int(rate_bps * CEILING_PER_RATE), allotment.least_bps)
        ceiling_bps = min(ceiling_bps, device.rate_bps)
        promised = allotment.traffic_class is TrafficClass.PROMISED
        priority = _PROMISED_FIRST if promised else _LOWEST
        return _class(verb, device.name, minor, rate_bps, ceiling_bps, priority)


def _may_owe(before: Allotment, now: Allotment) -> bool:
    """Whether a class would be silent, after its rate was raised, for what it sent before."""
    is_raised = now.most_bps >= 2 * before.most_bps
    return is_raised and DEBT_MAX_S * before.most_bps < PACKET_BITS_MAX


def parse_device(text: str) -> Device:
    """A device as on the command line: NAME, NAME=RATE or NAME=RATE,DEFAULT-RATE.

    Raises:
        BadInput: the name or a rate is not one.
    """
    name, _, rates = text.partition("=")
    if not name or not name.isascii() or any(x.isspace() for x in name) or len(name) > 15:
        raise BadInput(f'"{text}" does not name a device')
    limits = [Rate(rate.strip()).bit_per_s for rate in rates.split(",")] if rates else []
    if len(limits) > 2 or any(not limit >= RATE_MIN_BPS for limit in limits):
        raise BadInput(f'"{text}": write NAME, NAME=RATE or NAME=RATE,DEFAULT-RATE')
    return Device(name, *(min(limit, RATE_MAX_BPS) for limit in limits))


def _pairs_packets(pair: Pair, priority: int) -> str:
    """A filter's words for the packets of a pair; the ports stand right behind the IP header."""
    ip, bits = ("ip6", 128) if pair.is_ipv6 else ("ip", 32)
    protocol = "ipv6" if pair.is_ipv6 else "ip"
    return (
        f"protocol {protocol} prio {priority} u32 match {ip} protocol 6 0xff"
        f" match {ip} src {pair.source}/{bits} match {ip} dst {pair.destination}/{bits}"
        f" match {ip} dport {pair.port} 0xffff"
    )


def _lower_filters(device: str) -> list[str]:
    """What sends packets of the lower class there, before any pair's filter is asked."""
    words = [f"protocol ip {{}} u32 match ip tos {x << 2:#04x} 0xfc" for x in LOWER_DSCPS]
    # IPv6 has them behind the four bits of its version.
    words += [f"protocol ipv6 {{}} u32 match u16 {x << 6:#06x} 0x0fc0 at 0" for x in LOWER_DSCPS]
    return [
        f"filter add dev {device} parent 1: {one.format(f'prio {priority}')} flowid 1:{_LOWER:x}"
        for priority, one in enumerate(words, start=1)
    ]


def _class(
    verb: str, device: str, minor: int, rate_bps: int, ceiling_bps: int, priority: int = 0
) -> str:
    parent = "1:" if minor == _ROOT else f"1:{_ROOT:x}"
    # Two milliseconds' worth, at least two packets: enough for a timer that is late once.
    burst = max(3_200, rate_bps // 8 // 500)
    ceiling_burst = max(3_200, ceiling_bps // 8 // 500)
    return (
        f"class {verb} dev {device} parent {parent} classid 1:{minor:x} htb"
        f" rate {rate_bps}bit ceil {ceiling_bps}bit burst {burst}b cburst {ceiling_burst}b"
        f" quantum 15140 prio {priority}"
    )


def _leaf(device: str, minor: int, rate_bps: int) -> str:
    limit = max(QUEUE_BYTES_MIN, min(int(rate_bps / 8 * QUEUE_S), 64_000_000))
    return f"qdisc add dev {device} parent 1:{minor:x} handle {minor:x}: bfifo limit {limit}b"


def _tc(commands: list[str], forgiving: bool = False) -> None:
    batch = "\n".join(commands) + "\n"
    argv = ["tc", *(["-force"] if forgiving else []), "-batch", "-"]
    try:
        done = subprocess.run(argv, input=batch, capture_output=True, text=True, timeout=10)
    except FileNotFoundError:
        raise Unsupported("tc is not here: install the Debian package iproute2") from None
    if done.returncode == 0 or forgiving:
        return
    message = " ".join(done.stderr.split())
    if "Cannot find device" in message:
        raise BadInput(f"no such device: {message}")
    raise Unsupported(f"tc: {message}")
