"""Valid documents, spoilt: values, keys and text that no sound document has, one to four at a time.

`WEIR_FUZZ_EXAMPLES=100000` looks at so many examples of each loader, at random instead of always
the same.
"""

import copy
import functools
import json
import math
import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("WEIR_FUZZ_EXAMPLES", "0"))


def nested(depth):
    return functools.reduce(lambda inner, _: [inner], range(depth), [])


floats = st.sampled_from([-0.0, 0.5, 1e-300, 1e300, math.nan, math.inf, -math.inf])
integers = st.sampled_from([0, -1, 1, 2, 3, 2**31, 2**53 + 1, 2**62, 2**63, 2**64 - 1, 2**64])
giants = st.sampled_from([-(2**63), 10**30, 10**400])
words = st.sampled_from(["", " ", "\0", "ä", "x" * 300, "\ud800", "a", "b", "NaN"])
amounts = st.sampled_from(["-1 s", "0 s", "inf s", "1 ns", "1 B", "1 bit/s", "0 bit/s"])
too_much = st.sampled_from(["1e400 Mbit/s", "99999999999999 TB", "18446744073709551615 ns"])
numbers = floats | integers | giants
texts = words | amounts | too_much | st.text(max_size=6)
others = st.sampled_from([None, True, False, [], {}, [[]], [None], {"": None}, {"a": {}}])
values = numbers | texts | others


def places(tree):
    """Every container and key or index in it."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield tree, key
        if isinstance(value, dict | list):
            yield from places(value)


@st.composite
def spoilt(draw, documents):
    """One of the documents after some changes."""
    tree = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(1, 4))):
        found = list(places(tree))
        if not found:
            return tree
        holder, key = draw(st.sampled_from(found))
        change = draw(st.sampled_from(["value", "value", "drop", "copy", "twice", "key", "deep"]))
        if change == "value":
            holder[key] = copy.deepcopy(draw(values))
        elif change == "drop":
            del holder[key]
        elif change == "copy":
            other, place = draw(st.sampled_from(found))
            holder[key] = copy.deepcopy(other[place])
        elif change == "deep":
            holder[key] = nested(draw(st.sampled_from([3, 30, 90])))
        elif change == "twice" and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif isinstance(holder, dict):
            holder[draw(texts)] = holder[key]
    return tree


@st.composite
def cut(draw, text):
    """The text itself damaged in some cases."""
    whole = draw(text)
    if draw(st.integers(0, 9)) or not whole:
        return whole
    at = draw(st.integers(0, len(whole)))
    deep = [f"{'[' * depth}{']' * depth}" for depth in (150, 900, 100_000)]
    more = draw(st.sampled_from(["", "\0", "9" * 5000, "[" * 100_000, '{"a":' * 100_000, *deep]))
    return whole[:at] + more + whole[at + draw(st.integers(0, 3)) :]


def as_json(documents):
    return cut(spoilt(documents).map(json.dumps))


def as_toml(documents):
    return cut(spoilt(documents).map(toml))


def as_bytes(text):
    """The text encoded, in some cases with bytes that are not UTF-8."""
    whole = text.map(lambda text: text.encode("utf-8", "surrogatepass"))
    return whole | st.tuples(whole, st.binary(max_size=3)).map(lambda both: both[1] + both[0])


def toml(tree):
    if not isinstance(tree, dict):
        return inline(tree)
    return "\n".join(f"{json.dumps(key)} = {inline(value)}" for key, value in tree.items())


def inline(value):
    """A value as TOML has it; what TOML has no word for comes out as no TOML."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {inline(inner)}" for key, inner in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


def examples(number, **strategies):
    """Runs a test on so many spoilt documents, or on as many as the environment asks for."""

    def decorate(test):
        chosen = settings(
            max_examples=EXAMPLES or number,
            derandomize=not EXAMPLES,
            deadline=None,
            suppress_health_check=[*HealthCheck],
        )
        return chosen(given(**strategies)(test))

    return decorate
