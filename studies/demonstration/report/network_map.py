"""The map of the network: sites left and right, routers between them, links with their figures."""

from html import escape

from studies.demonstration.report.result import Link, Result
from weir.chart.plot import svg, text
from weir.format import delay, percent, rate

Place = tuple[float, float]


def render(result: Result) -> str:
    """The map as one block of HTML."""
    scenario = result.scenario
    places = _places(result)
    shapes = [_cable(link, places, link.name == scenario.bottleneck) for link in scenario.links]
    labels = [_node(result, name, place) for name, place in places.items()]
    return (
        f'<div class="map">{svg(shapes, "map of the network")}{"".join(labels)}'
        f"{_bottleneck(result, places)}</div>"
    )


def _places(result: Result) -> dict[str, Place]:
    """Senders left, receivers right, routers in a row between, in percent of the map."""
    senders = {delivery.source for delivery in result.weir.deliveries}
    near = result.scenario.bottleneck_link.ends[0]
    columns: dict[str, list[str]] = {"left": [], "right": []}
    routers = [node.name for node in result.scenario.nodes if node.kind == "router"]
    for node in result.scenario.nodes:
        if node.kind != "router":
            left = node.name in senders or _touches(result, node.name, near)
            columns["left" if left else "right"].append(node.name)
    routers.sort(key=lambda name: name != near)
    places = {
        name: (32 + 36 * index / max(len(routers) - 1, 1), 50.0)
        for index, name in enumerate(routers)
    }
    for side, x in (("left", 12.0), ("right", 88.0)):
        names = columns[side]
        for index, name in enumerate(names):
            places[name] = (x, 100 * (index + 0.5) / len(names))
    return places


def _touches(result: Result, name: str, router: str) -> bool:
    return any({name, router} == set(link.ends) for link in result.scenario.links)


def _cable(link: Link, places: dict[str, Place], bottleneck: bool) -> str:
    (x1, y1), (x2, y2) = (places[end] for end in link.ends)
    css = "cable narrow" if bottleneck else "cable"
    return f'<line class="{css}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>'


def _node(result: Result, name: str, place: Place) -> str:
    node = next(node for node in result.scenario.nodes if node.name == name)
    if node.kind == "router":
        content = f"<b>{escape(name)}</b>"
    else:
        links = [link for link in result.scenario.links if name in link.ends]
        figures = ", ".join(f"{delay(link.delay_s)}" for link in links)
        content = f"<b>{escape(name)}</b><i>{escape(node.what)}</i><small>{figures}</small>"
    return text(*place, content, f"node {node.kind}")


def _bottleneck(result: Result, places: dict[str, Place]) -> str:
    link = result.scenario.bottleneck_link
    (x1, y1), (x2, y2) = (places[end] for end in link.ends)
    share = result.scenario.calendar_bps / link.rate_bps
    content = (
        f"<b>{rate(link.rate_bps)}</b> shared"
        f"<small>{delay(link.delay_s)} one way</small>"
        f"<small>calendar {percent(share)}, background "
        f"{percent(result.scenario.background_bps / link.rate_bps)}</small>"
    )
    return text((x1 + x2) / 2, (y1 + y2) / 2, content, "node label")
