"""The parameters in the documents are those of the core."""

import json

import pytest
from parameter_tables import LAB_PAGE, PAGE, written

from weir import Bytes, Rate, Time
from weir._core import application_parameters

APPLICATIONS = json.loads(application_parameters())


def test_the_table_of_queue_disciplines_is_what_the_core_tells():
    page = PAGE.read_text()
    assert page == written(page), "write it with: python tests/lab/parameter_tables.py"


def shown(parameter):
    """A default as the page writes it."""
    default, kind = parameter["default"], parameter["kind"]
    if default is None:
        return "required"
    if not default and kind != "flag":
        return "0"
    match kind:
        case "time" | "pause":
            return f'`"{Time.from_ns(default)}"`'
        case "size":
            return f'`"{Bytes.from_count(default)}"`'
        case "rate":
            return f'`"{Rate.from_bit_per_s(default)}"`'
        case "flag":
            return f"`{str(default).lower()}`"
    return str(default)


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda one: one["kind"])
def test_the_page_of_the_lab_has_every_parameter_with_its_default(application):
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in LAB_PAGE.read_text().splitlines()
        if line.startswith("| `")
    ]
    ours = [row for row in rows if application["kind"] in row[1].split(", ")]
    names = [name for row in ours for name in row[0].replace("`", "").split(", ")]
    assert sorted(names) == sorted(one["name"] for one in application["parameters"])
    told = {one["name"]: shown(one) for one in application["parameters"]}
    for row in ours:
        defaults = {told[name]: None for name in row[0].replace("`", "").split(", ")}
        assert row[-1] == ", ".join(defaults), row
