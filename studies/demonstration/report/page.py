"""The HTML page of a result: one file, no network, light and dark, screen, phone and paper."""

import json
from html import escape
from pathlib import Path

from studies.demonstration.report import figures, format, network_map, tables
from studies.demonstration.report.result import Half, Result
from weir.format import percent, rate, size


def render(result: Result) -> str:
    """The whole page as text."""
    sections = [
        _header(result),
        _section("The network", network_map.render(result), _network_words(result)),
        _section("Who had the link, and when", figures.rates(result), _rates_words(result)),
        _section("Every file against its deadline", figures.file_rows(result), ROWS_WORDS),
        _section("How much of the allowed time each file took", figures.share_of_time(result), ""),
        _section("How full the shared link was", figures.utilisation(result), UTILISATION_WORDS),
        _section("What the calendar decided", tables.decisions(result), DECISIONS_WORDS),
        _section("The figures", tables.table(result), ""),
        _section("How this was taken", tables.provenance(result), ""),
    ]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Weir: {escape(format.headline(result))}</title>",
            f"<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n<main>",
            *sections,
            "</main>",
            f'<script type="application/json" id="data">{_data(result)}</script>',
            f"<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n",
        ]
    )


ROWS_WORDS = (
    "Each row is one file, each shape its rate, averaged over a second, all on one scale; the "
    "thin line is the rate that the calendar allotted, and what was sent beside it is lighter. "
    "The upright mark is the deadline, and "
    "what arrived after it is red. An arrow means the deadline lies beyond the plot."
)
UTILISATION_WORDS = (
    "Bits that left the bottleneck's queue, background and headers included, "
    "as a share of the link's rate."
)
DECISIONS_WORDS = (
    "Answers are given at submission. A refusal names the link that is full "
    "and the earliest deadline that would be accepted."
)


def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _section(title: str, body: str, lead: str) -> str:
    lead = f'<p class="lead">{lead}</p>' if lead else ""
    return f"<section><h2>{title}</h2>{lead}{body}</section>"


# --- the story at the top ---


def _header(result: Result) -> str:
    scenario = result.scenario
    total = sum(delivery.bytes for delivery in result.weir.deliveries)
    return (
        f'<header><p class="eyebrow">Weir {escape(result.version)} · {escape(scenario.name)} · '
        f"seed {scenario.seed} · {escape(result.taken_at)}</p>"
        f'<h1><span class="by-weir">{format.tally(result.weir)}</span> files on time with Weir, '
        f'<span class="by-plain">{format.tally(result.plain)}</span> with plain TCP.</h1>'
        f'<p class="lede">The same {size(total)} over the same '
        f"{rate(scenario.bottleneck_link.rate_bps)} link, submitted at the same moments, "
        f"moved by the same program over the kernel&rsquo;s own TCP "
        f"({escape(scenario.congestion)}), beside the same background traffic. "
        "The only difference is a calendar that decides who sends when, and how fast.</p>"
        f'<div class="tiles">{_tiles(result)}</div></header>'
    )


def _tiles(result: Result) -> str:
    halves = figures.halves(result)
    rows = [
        ("On time", {key: _dots(half) + format.tally(half) for key, half in halves.items()}),
        ("Worst case", {key: format.extreme(half) for key, half in halves.items()}),
        ("Shared link in use", {k: percent(h.utilisation) for k, h in halves.items()}),
        ("Received intact", {k: f"{h.verified} of {len(h.deliveries)}" for k, h in halves.items()}),
    ]
    return "".join(
        f'<div class="tile"><h3>{title}</h3><dl>'
        + "".join(
            f"<div><dt>{figures.HALVES[key]}</dt><dd>{value}</dd></div>"
            for key, value in by.items()
        )
        + "</dl></div>"
        for title, by in rows
    )


def _dots(half: Half) -> str:
    marks = "".join(
        '<i class="hit">✓</i>' if delivery.on_time else '<i class="miss">✕</i>'
        for delivery in half.deliveries
    )
    return f'<span class="dots" aria-hidden="true">{marks}</span>'


def _network_words(result: Result) -> str:
    scenario = result.scenario
    link = scenario.bottleneck_link
    return (
        "Each site is a network namespace with the kernel&rsquo;s own TCP; each link is "
        f"emulated in real time. Every file crosses {escape(link.name)}, "
        f"{rate(link.rate_bps)} wide. "
        f"{escape(scenario.background)} crosses it too; the calendar may hand out "
        f"{rate(scenario.calendar_bps)} of it. Delays are one way."
    )


def _rates_words(result: Result) -> str:
    return (
        "Rates of the transfers stacked, headers and background not included. With Weir each has "
        "two shades: dark is what was promised at the time, light what it got beside that, in a "
        "lower class that yields to all other traffic. Dotted: what the "
        f"calendar may hand out, {rate(result.scenario.calendar_bps)}; solid: the link, "
        f"{rate(result.scenario.bottleneck_link.rate_bps)}."
    )


def _data(result: Result) -> str:
    """What the tooltips read; `<` is escaped so that no name can end the script element."""
    data = {
        "span_s": figures.span(result),
        "order": [delivery.id for delivery in result.weir.deliveries],
        "halves": {
            key: {
                "title": figures.HALVES[key],
                "step_s": half.timeline.step_s,
                "flows": {
                    name: [round(value / 1e6, 1) for value in series]
                    for name, series in half.timeline.flows_bps.items()
                },
                "use": [
                    round(100 * value, 1)
                    for value in half.timeline.links.get(result.scenario.bottleneck, [])
                ],
            }
            for key, half in figures.halves(result).items()
        },
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
