"""The k-ary fat-tree (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008; 003-spec section 5.6, D-4)."""

from weir import Rate
from weir.migration.problem import Link

PODS_MAX = 48


def fat_tree(pods: int, capacity: Rate, duplex: str = "full") -> tuple[list[str], list[Link]]:
    """Nodes and links of a fat-tree with an even number of pods.

    Hosts are `host-POD-EDGE-NUMBER`, switches `edge-POD-NUMBER`, `aggregation-POD-NUMBER` and
    `core-NUMBER`, all counted from 1. There are pods^3/4 hosts and 3 pods^3/4 links. Aggregation
    switch a of every pod is joined to cores (a-1) pods/2 + 1 to a pods/2.
    """
    half = pods // 2
    links = []

    def join(low: str, high: str) -> None:
        links.append(Link(f"{low}:{high}", (low, high), capacity, duplex))

    hosts, switches = [], []
    for pod in range(1, pods + 1):
        for edge in range(1, half + 1):
            switches.append(f"edge-{pod}-{edge}")
            for number in range(1, half + 1):
                hosts.append(f"host-{pod}-{edge}-{number}")
                join(hosts[-1], switches[-1])
        for aggregation in range(1, half + 1):
            switches.append(f"aggregation-{pod}-{aggregation}")
            for edge in range(1, half + 1):
                join(f"edge-{pod}-{edge}", switches[-1])
            for core in range((aggregation - 1) * half + 1, aggregation * half + 1):
                join(switches[-1], f"core-{core}")
    switches += [f"core-{core}" for core in range(1, half * half + 1)]
    return [*hosts, *switches], links
