"""Where the agents of hosts may take data, as the network file declares it.

Data is sent wherever the agent of its destination says. A token is bound to a host, and not to an
address: so an agent that may speak for one host can have that host's files sent to another one,
which takes them for its own. Which address is whose only the operator knows. What is declared is

    10.1.0.2  10.1.0.0/24  fd00:1::2  fd00:1::/64  dtn1.example.org       at any port
    10.1.0.2:7411  10.1.0.2:7411-7418  [fd00:1::2]:7411  gate.example.org:7411-7418

with ports where several hosts are reached at one address, as behind forwarded ports.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from weir.errors import BadInput

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_FORM = re.compile(r"(?:\[(?P<inner>[^][]+)\]|(?P<host>[^][:]+))(?::(\d{1,5})(?:-(\d{1,5}))?)?")
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_PORTS = range(1, 65_536)


@dataclass(frozen=True, slots=True)
class DataPlace:
    """One declaration: an IP network, or else a name, with the ports there."""

    text: str
    network: Network | None
    name: str
    ports: range = _PORTS

    @property
    def is_single(self) -> bool:
        """Whether it is one address, which can be one host's alone."""
        return self.network is None or self.network.num_addresses == 1

    def has(self, host: str) -> bool:
        """Whether a host, an IP or a name, is there, at whichever port."""
        address = _address(host)
        if self.network is None:
            return address is None and _name(host) == self.name
        return address is not None and address in self.network


def parse_place(text: str) -> DataPlace:
    """Reads a declaration; raises `BadInput` saying what is wrong with it."""
    if "/" in text or _address(text) is not None:
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            raise BadInput(f"{text!r:.60}: {error}") from None
        return DataPlace(text, _plain(network), "")
    form = _FORM.fullmatch(text)
    if form is None:
        raise BadInput(f"{text!r:.60} is no address, prefix or name, with or without ports")
    host, (first, last) = form["inner"] or form["host"], form.groups()[2:]
    ports = range(int(first), int(last or first) + 1) if first else _PORTS
    if not ports or ports[0] < 1 or ports[-1] > _PORTS[-1]:
        raise BadInput(f"{text!r:.60}: ports are from 1 to 65535, the first one first")
    address = _address(host)
    if address is not None:
        return DataPlace(text, ipaddress.ip_network(address), "", ports)
    # What is made of digits is an IP to a resolver, whichever.
    if not _NAME.fullmatch(_name(host)) or not re.search("[a-z]", host.lower()):
        raise BadInput(f"{text!r:.60} is no address, prefix or name, with or without ports")
    return DataPlace(text, None, _name(host), ports)


def refusal(
    declared: Mapping[str, tuple[DataPlace, ...]],
    host: str,
    data_address: str,
    data_ports: Iterable[int],
) -> str | None:
    """Why an agent may not take the data of a host at an address and its ports; None if it may.

    Of a host for which nothing is declared it may be any but one that is declared another's alone.
    What a name stands for is not known here: it is compared with declared names.
    """
    named, _, last = data_address.rpartition(":")
    named = named.strip("[]")
    # What is no number is no port of a declaration either.
    ports = {int(last) if re.fullmatch("[0-9]{1,5}", last) else 0, *data_ports}
    own = declared.get(host, ())
    if any(place.has(named) and ports <= set(place.ports) for place in own):
        return None
    if own:
        said = ", ".join(place.text for place in own)
        return f'"{data_address}" is not where data for "{host}" may go: declared is {said}'
    for other, places in declared.items():
        for place in places:
            if place.is_single and place.has(named) and not ports.isdisjoint({0, *place.ports}):
                return f'"{data_address}" is declared to be where data for "{other}" goes'
    return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IP in one form, whichever it is written in; None for what is a name."""
    try:
        address = ipaddress.ip_address(host.strip())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _plain(network: Network) -> Network:
    """A network of IPv4 also where it is written as one of IPv6."""
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is None or network.prefixlen < 96:
        return network
    return ipaddress.ip_network((mapped, network.prefixlen - 96))


def _name(host: str) -> str:
    return host.lower().removesuffix(".")
