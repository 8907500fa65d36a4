"""From what switches do to what they should do, so that no packet meets half a path.

A path is put in place before anybody is sent along it, and taken away when nobody comes along any
more:

1. the rules behind the first switch of a path, wherever they are missing;
2. when all of these are confirmed, the rules of the first switch, which change the label that
   packets are given in one step;
3. when that is confirmed and what was under way has arrived, the rules of the old label.

What is right already is not touched, so the same serves to begin, to change and to mend.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from weir.control import messages as m
from weir.control.rules import goes_first, is_pair, label_of


def due(
    believed: Mapping[str, m.Tables],
    wanted: Mapping[str, m.Tables],
    is_complete: bool,
    broken: Collection[str],
    has_drained: Callable[[str], bool],
) -> dict[str, list[m.Change]]:
    """What each switch may be told now; when all of it is confirmed, ask again.

    Args:
        believed: what the switches do that are connected, as last reported or confirmed.
        wanted: what every switch should do.
        is_complete: whether these are all switches that there are; others go on as they are,
            whatever that is.
        broken: labels of paths through switches about which nothing is known.
        has_drained: whether nobody gives packets a label any more, and none with it is under way.
    """
    incomplete = _incomplete(believed, wanted) | set(broken)
    waiting = {
        goes_first(place)
        for tables in wanted.values()
        for place, entry in tables.rules.items()
        if is_pair(place) and entry.actions.eth_source in incomplete
    }
    batches = {}
    for name in believed:
        if name not in wanted:
            continue
        has, should = believed[name], wanted[name]
        added: list[m.Change] = [
            m.AddRule(place, entry)
            for place, entry in should.rules.items()
            if has.rules.get(place) != entry
            and not (is_pair(place) and entry.actions.eth_source in incomplete)
        ]
        # A switch that has forgotten everything gets its labels before its next hops.
        added.sort(key=lambda x: isinstance(x, m.AddRule) and label_of(x.place) is None)
        removed: list[m.Change] = []
        for place in has.rules.keys() - should.rules.keys():
            label = label_of(place)
            if label is not None:
                # Who is not here may still send along it.
                goes = is_complete and has_drained(label)
            else:
                # A pair that is to begin at another switch waits for its new path.
                goes = not is_pair(place) or goes_first(place) not in waiting
            if goes:
                removed.append(m.RemoveRule(place))
        rules = m.after(has, [*added, *removed]).rules
        changes = [*_meters_before(has, should), *added, *removed]
        changes += _meters_after(has, should, rules)
        if changes:
            batches[name] = changes
    return batches


def unused_labels(believed: Mapping[str, m.Tables]) -> set[str]:
    """The labels for which there are rules, and that no switch gives to packets."""
    there = {label_of(place) for tables in believed.values() for place in tables.rules}
    return {label for label in there if label} - _labels_set(believed.values())


def _incomplete(
    believed: Mapping[str, m.Tables], wanted: Mapping[str, m.Tables]
) -> set[str | None]:
    """The labels that are not in place everywhere on their paths."""
    return {
        label_of(place)
        for name, tables in wanted.items()
        for place, entry in tables.rules.items()
        if label_of(place) and (name not in believed or believed[name].rules.get(place) != entry)
    }


def _labels_set(tables: Iterable[m.Tables]) -> set[str]:
    """The labels that packets are given somewhere."""
    entries = (entry for one in tables for entry in one.rules.values())
    return {entry.actions.eth_source for entry in entries if entry.actions.eth_source}


def _meters_before(has: m.Tables, should: m.Tables) -> list[m.Change]:
    changes: list[m.Change] = []
    for number, meter in should.meters.items():
        if number not in has.meters:
            changes.append(m.AddMeter(number, meter))
        elif has.meters[number] != meter:
            changes.append(m.ChangeMeter(number, meter))
    return changes


def _meters_after(
    has: m.Tables, should: m.Tables, rules: Mapping[m.Place, m.Entry]
) -> list[m.Change]:
    """The meters that go: a switch drops the rules of a meter with it."""
    used = {entry.actions.meter for entry in rules.values()}
    return [m.RemoveMeter(x) for x in has.meters.keys() - should.meters.keys() if x not in used]
