"""Three hosts in a row on one machine: a client, a host for relays, and a server.

    client ── veth ── between ── veth ── server      10.98.1.0/24, 10.98.2.0/24

The one between also forwards packets, so that the way without a relay leads over the same devices.
Nothing is left behind even by SIGKILL: see `benches.testbed`.
"""

import contextlib
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass

from benches.account import Cgroups
from benches.testbed import Host, holder, inside, opened, set_congestion, veth
from weir.errors import Unsupported

CLIENT, CLIENT_SIDE = "10.98.1.1", "10.98.1.2"
SERVER_SIDE, SERVER = "10.98.2.1", "10.98.2.2"
"""The addresses, in the order of the row."""
_PORTS = "1024 65535"
# What a relay has open beside connections.
_OTHER_DESCRIPTORS = 200


@dataclass(frozen=True)
class Hosts:
    """The hosts, and the cgroups of what runs on them."""

    client: Host
    between: Host
    server: Host
    cgroups: Cgroups


@contextlib.contextmanager
def hosts() -> Iterator[Hosts]:
    """Builds them; all is gone at the end.

    Raises:
        Unsupported: this user may not.
    """
    if os.geteuid() != 0:
        raise Unsupported("this benchmark makes network namespaces and cgroups: run it as root")
    with contextlib.ExitStack() as held:
        cgroups = held.enter_context(Cgroups())
        names = ("client", "between", "server")
        pids = {name: held.enter_context(holder()) for name in names}
        veth(pids, "client", "out", f"{CLIENT}/24", "between", "left", f"{CLIENT_SIDE}/24")
        veth(pids, "between", "right", f"{SERVER_SIDE}/24", "server", "in", f"{SERVER}/24")
        inside(pids["client"], "ip", "route", "add", "default", "via", CLIENT_SIDE)
        inside(pids["server"], "ip", "route", "add", "default", "via", SERVER_SIDE)
        settings = {"ipv4.ip_forward": "1", "ipv4.ip_local_port_range": _PORTS}
        settings |= {"ipv4.tcp_max_syn_backlog": "8192", "ipv4.tcp_tw_reuse": "1"}
        settings |= {"core.somaxconn": "8192"}
        for pid in pids.values():
            for key, value in settings.items():
                inside(pid, "sysctl", "-qw", f"net.{key}={value}")
            set_congestion(pid)
        made = [
            Host(name, pid, {}, [held.enter_context(opened(pid, "net"))])
            for name, pid in pids.items()
        ]
        yield Hosts(*made, cgroups)


def pairs_max() -> int:
    """How many connections a relay can have here at once: it takes two descriptors for each."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (hard - _OTHER_DESCRIPTORS) // 2
