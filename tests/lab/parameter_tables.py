"""Writes the parameters that the core tells of into the table of docs/queues.md.

    python tests/lab/parameter_tables.py

`test_parameter_tables.py` fails where the page says anything else.
"""

import json
from fractions import Fraction
from pathlib import Path

from weir import Time
from weir._core import queue_parameters
from weir.lab.scenario import CODEPOINTS

DOCS = Path(__file__).parents[2] / "docs"
PAGE, LAB_PAGE = DOCS / "queues.md", DOCS / "lab.md"
HEAD = "| discipline | parameters and defaults | default limit |"
NAMES = {number: name for name, number in CODEPOINTS.items()}


def written(page: str) -> str:
    """The page with the middle column of its table as the core tells it.

    Raises:
        SystemExit: a discipline has no row yet.
    """
    lines = page.splitlines(keepends=True)
    first = lines.index(HEAD + "\n") + 2
    told = json.loads(queue_parameters())
    limits = {}
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        names, _, limit = (cell.strip() for cell in line.strip().strip("|").split("|"))
        limits |= dict.fromkeys(names.strip("`").split("`, `"), limit)
        lines.remove(line)
    if without := [one["discipline"] for one in told if one["discipline"] not in limits]:
        raise SystemExit(f"{PAGE}: write a row with name and default limit of {without}")
    rows = [
        f"| `{one['discipline']}` | {', '.join(map(_shown, one['parameters']))} "
        f"| {limits[one['discipline']]} |\n"
        for one in told
    ]
    return "".join([*lines[:first], *rows, *lines[first:]])


def _shown(parameter: dict) -> str:
    default = parameter["unset"] or _value(parameter["kind"], parameter["default"])
    others = [f"`{x}`" for x in parameter["choices"] if x != parameter["default"]]
    return f"`{parameter['name']}` {default}" + (f" (or {', '.join(others)})" if others else "")


def _value(kind: str, value) -> str:
    match kind:
        case "time":
            return str(Time.from_ns(value))
        case "size":
            return f"{value} B"
        case "flag":
            return str(value).lower()
        case "choice":
            return f"`{value}`"
        case "amount":
            [(unit, count)] = value.items()
            return {"ns": str(Time.from_ns(count)), "bytes": f"{count} B"}.get(
                unit, f"{count} {unit}"
            )
        case "classes":
            return "`" + json.dumps([[NAMES[dscp] for dscp in one] for one in value]) + "`"
        case "weighted-classes":
            return "`[" + ", ".join(map(_class, value)) + "]`"
    share = Fraction(value).limit_denominator(10_000)
    simple = share.numerator == 1 and share.denominator > 10 and value == float(share)
    return str(share) if simple else f"{value:g}"


def _class(one: dict) -> str:
    dscps = json.dumps([NAMES[dscp] for dscp in one["dscp"]])
    return f"{{ dscp = {dscps}, weight = {one['weight']} }}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
