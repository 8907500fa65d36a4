"""The page's words and figures: the calendar's decisions, the table, how it was taken."""

from html import escape

from studies.demonstration.report import format
from studies.demonstration.report.result import Decision, Delivery, Result
from weir.format import rate, size


def decisions(result: Result) -> str:
    """What the calendar answered, and, folded away, every rate that it changed."""
    answers = "".join(
        f'<li class="{event.kind}"><time>{event.at_s:.1f} s</time><b>{escape(event.id)}</b>'
        f"<span>{escape(format.decision(event))}</span></li>"
        for event in result.decisions
        if event.kind != "rate"
    )
    changes = [event for event in result.decisions if event.kind == "rate"]
    moments = "".join(
        f"<li><time>{at:.1f} s</time><span>{escape(', '.join(texts))}</span></li>"
        for at, texts in _together(changes).items()
    )
    folded = (
        f"<details><summary>Changes of rate, as the agents were told them: {len(changes)}"
        f'</summary><ol class="decisions">{moments}</ol></details>'
    )
    return f'<ol class="decisions">{answers}</ol>{folded if changes else ""}'


def _together(changes: list[Decision]) -> dict[float, list[str]]:
    """Changes in words, by the tenth of a second in which they were made."""
    moments: dict[float, list[str]] = {}
    for event in changes:
        text = f"{event.id} {rate(event.rate_bps or 0)}"
        moments.setdefault(round(event.at_s, 1), []).append(text)
    return moments


def table(result: Result) -> str:
    """Every file's figures in both halves."""
    rows = "".join(
        _table_row(index, ours, theirs)
        for index, (ours, theirs) in enumerate(
            zip(result.weir.deliveries, result.plain.deliveries, strict=True)
        )
    )
    return (
        '<div class="scroll"><table><thead><tr><th>file</th><th>size</th><th>submitted</th>'
        "<th>deadline</th><th>with Weir</th><th></th><th>plain TCP</th><th></th>"
        f"<th>intact</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _table_row(index: int, ours: Delivery, theirs: Delivery) -> str:
    intact = "both" if ours.verified and theirs.verified else "NO"
    return (
        f'<tr><th><i class="chip f{index % 8}"></i>{escape(ours.id)}</th>'
        f"<td>{size(ours.bytes)}</td><td>{ours.submitted_s:.1f} s</td>"
        f"<td>{ours.deadline_s:.1f} s</td>{_cell(ours)}{_cell(theirs)}<td>{intact}</td></tr>"
    )


def _cell(delivery: Delivery) -> str:
    finish = "&ndash;" if delivery.finish_s is None else f"{delivery.finish_s:.2f} s"
    state = "hit" if delivery.on_time else "miss"
    return f'<td>{finish}</td><td class="{state}">{format.verdict(delivery)}</td>'


def provenance(result: Result) -> str:
    """What, when, where, and how it was measured."""
    facts = [
        f"Weir {result.version}, scenario {result.scenario.name}, seed {result.scenario.seed}, "
        f"calendar policy {result.scenario.policy}; taken {result.taken_at} on {result.machine}.",
        "A file counts as finished when the file system notes its final name at the destination; "
        "the received bytes were then hashed (SHA-256) and compared with the source, apart from "
        "the mover's own checks.",
        *result.notes,
        "The same figures are in result.json beside this page; weir run takes them again.",
    ]
    return "<ul>" + "".join(f"<li>{escape(fact)}</li>" for fact in facts) + "</ul>"
