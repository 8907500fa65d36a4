"""What a switch without a controller forwards by: the scenario's own next hops."""

from weir.lab.addressing import Plan


def next_hop_rules(plan: Plan, switch: str) -> str:
    """One rule for each address, as `ovs-ofctl add-flows` reads them."""
    numbers = {port: number for number, port in plan.numbered[switch].items()}
    return "".join(
        f"priority=1,ip,nw_dst={plan.addresses[node]},actions=output:{numbers[port]}\n"
        for node, port in plan.next_hops[switch].items()
    )
