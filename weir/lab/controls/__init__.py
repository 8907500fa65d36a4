"""Which congestion controls a lab's connections have, and which its kernel has to be given."""

from collections.abc import Mapping
from dataclasses import replace

from weir import kernel_controls
from weir.errors import Unsupported
from weir.lab.controls.given import PROVIDED, Given
from weir.lab.scenario import ApplicationTraffic, Iperf3Traffic, Scenario

__all__ = ["PROVIDED", "Given", "between", "lacking", "renamed"]

_DEFAULT = "cubic"
_OVER_TCP = (Iperf3Traffic, ApplicationTraffic)


def lacking(scenario: Scenario) -> list[str]:
    """The controls that a lab's kernel has to be given.

    Raises:
        Unsupported: the scenario names one that is neither in this kernel nor provided, or has
            options, which are the simulator's.
    """
    available = kernel_controls.available()
    named = [(node.name, node.congestion) for node in scenario.nodes]
    named += [(traffic.name, traffic.congestion) for traffic in _over_tcp(scenario)]
    missing = {name for _, name in named if name and name not in available}
    for user, name in named:
        if name and ":" in name:
            raise Unsupported(
                f'{user}: congestion = "{name}": the kernel\'s controls have no options, '
                "only those of weir sim"
            )
        if name in missing and name not in PROVIDED:
            raise Unsupported(
                f'{user}: congestion = "{name}" is not in this kernel; '
                f"it has {', '.join(available)}"
            )
    return sorted(missing)


def renamed(scenario: Scenario, names: Mapping[str, str]) -> Scenario:
    """The scenario with controls as the kernel calls them; others keep their names."""

    def of(control: str | None) -> str | None:
        return names.get(control, control) if control else None

    return replace(
        scenario,
        nodes=tuple(replace(node, congestion=of(node.congestion)) for node in scenario.nodes),
        traffic=tuple(
            replace(one, congestion=of(one.congestion)) if isinstance(one, _OVER_TCP) else one
            for one in scenario.traffic
        ),
    )


def between(scenario: Scenario, node: str, peer: str) -> str | None:
    """The control of a node's connections to another; None if this kernel has no CUBIC.

    DCTCP takes both ends, the receiver to echo each mark (RFC 8257 section 3.2) and the opener to
    ask for ECN: a node without a control of its own has it towards one that has it or with which
    it shares traffic of it. Where nothing is said it is CUBIC, as in the packet simulator.
    """
    own = scenario.node(node).congestion
    theirs = [scenario.node(peer).congestion]
    ends = {node, peer}
    theirs += [t.congestion for t in _over_tcp(scenario) if {t.source, t.destination} == ends]
    both = next((name for name in theirs if name and _takes_both_ends(name)), None)
    return own or both or (_DEFAULT if _DEFAULT in kernel_controls.available() else None)


def _takes_both_ends(control: str) -> bool:
    return control.split("_")[0] == "dctcp"


def _over_tcp(scenario: Scenario) -> list[Iperf3Traffic | ApplicationTraffic]:
    return [traffic for traffic in scenario.traffic if isinstance(traffic, _OVER_TCP)]
