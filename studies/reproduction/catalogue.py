"""Every published table and figure of the five works, built or not.

Those not yet built are data: `published/NNN.toml`, one file a work, which also names the drawings
and tables that hold no result. An entry goes when its row is built.
"""

import difflib
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from studies.works.row import Published, Row
from studies.works.w000 import (
    ch1_losses,
    ch1_pacing,
    ch1_run_times,
    ch2_stalls,
    ch2_victims,
    ch3_default_paths_live,
    ch3_elephants,
    ch3_extensions_live,
    ch3_headroom,
    ch3_headroom_live,
    ch3_headroom_packets,
    ch3_headroom_packets_live,
    ch3_spare,
    ch3_tiers_live,
    ch4_calendar,
    ch4_calendar_live,
    ch5_desktop_live,
    ch5_desktop_own_live,
    ch5_opinions,
    ch5_programs_live,
)
from studies.works.w001 import (
    ch1_mixtures,
    ch2_round_trips,
    ch3_shared_wan,
    ch4_shared_network_live,
    ch4_shared_network_rows,
    ch5_recognition_rows,
    ch6_choosing,
    ch6_questions,
    ch7_choosing_turns,
)
from studies.works.w002 import ch1_worked_example, ch3_deadline, ch4_averages
from studies.works.w003 import (
    ch2_fairness,
    ch2_goodput,
    ch2_goodput_live,
    ch2_linked,
    ch2_multipath_live,
    ch2_options_live,
    ch2_splitting,
    ch2_wireless,
    ch3_smart_grid_live,
    ch4_queues_live,
    ch4_wlan,
    ch4_wlan_live,
    ch5_migration,
    ch5_migration_live,
    ch5_migration_printed,
)
from studies.works.w004 import (
    ch2_games,
    ch3_calibration,
    ch3_streaming,
    ch3_streaming_live,
    ch3_web_objects,
    ch3_web_objects_live,
    ch4_interactive,
    ch4_interactive_live,
)
from weir.errors import BadInput

ROWS: list[Row] = [
    *ch1_losses.ROWS,
    *ch1_pacing.ROWS,
    *ch1_run_times.ROWS,
    *ch2_stalls.ROWS,
    *ch2_victims.ROWS,
    *ch6_choosing.ROWS,
    *ch7_choosing_turns.ROWS,
    *ch2_round_trips.ROWS,
    *ch3_shared_wan.ROWS,
    *ch4_shared_network_rows.ROWS,
    *ch4_shared_network_live.ROWS,
    *ch1_mixtures.ROWS,
    *ch5_recognition_rows.ROWS,
    *ch6_questions.ROWS,
    *ch3_elephants.ROWS,
    *ch3_headroom.ROWS,
    *ch3_headroom_packets.ROWS,
    *ch3_headroom_packets_live.ROWS,
    *ch3_spare.ROWS,
    *ch3_headroom_live.ROWS,
    *ch3_default_paths_live.ROWS,
    *ch3_extensions_live.ROWS,
    *ch3_tiers_live.ROWS,
    *ch4_calendar.ROWS,
    *ch4_calendar_live.ROWS,
    *ch5_opinions.ROWS,
    *ch5_desktop_live.ROWS,
    *ch5_desktop_own_live.ROWS,
    *ch5_programs_live.ROWS,
    *ch1_worked_example.ROWS,
    *ch3_deadline.ROWS,
    *ch4_averages.ROWS,
    *ch2_goodput.ROWS,
    *ch2_goodput_live.ROWS,
    *ch2_linked.ROWS,
    *ch2_fairness.ROWS,
    *ch2_wireless.ROWS,
    *ch2_splitting.ROWS,
    *ch2_multipath_live.ROWS,
    *ch2_options_live.ROWS,
    *ch3_smart_grid_live.ROWS,
    *ch4_wlan.ROWS,
    *ch4_wlan_live.ROWS,
    *ch4_queues_live.ROWS,
    *ch5_migration.ROWS,
    *ch5_migration_live.ROWS,
    *ch5_migration_printed.ROWS,
    *ch2_games.ROWS,
    *ch3_calibration.ROWS,
    *ch3_streaming.ROWS,
    *ch3_streaming_live.ROWS,
    *ch3_web_objects.ROWS,
    *ch3_web_objects_live.ROWS,
    *ch4_interactive.ROWS,
    *ch4_interactive_live.ROWS,
]


@cache
def catalogue() -> tuple[Published, ...]:
    """All of them in the order of the works, each work in the order of its chapters."""
    entries = {
        id_: Published(id_, facts["title"], facts["published"])
        for file in _files().values()
        for id_, facts in file.items()
        if isinstance(facts, dict)
    }
    entries |= {row.id: row for row in ROWS}
    return tuple(sorted(entries.values(), key=_place))


def without_result(work: str) -> str:
    """The figures and tables of a work that are drawings, notation or settings, in words."""
    return str(_files()[work]["without_result"])


@cache
def _files() -> dict[str, dict[str, Any]]:
    """What is written down for each work."""
    folder = resources.files("studies.reproduction").joinpath("published")
    return {file.name[:3]: tomllib.loads(file.read_text()) for file in folder.iterdir()}


def find(ids: Sequence[str]) -> list[Published]:
    """The tables and figures called `ids`; all of them without any.

    Raises:
        BadInput: there is no such table or figure.
    """
    known = {entry.id: entry for entry in catalogue()}
    for id_ in ids:
        if id_ not in known:
            near = difflib.get_close_matches(id_, known, cutoff=0.5) or ["`weir reproduce --list`"]
            raise BadInput(
                f"there is no table or figure {id_!r}; see {', '.join(near)}{_drawings(id_[:3])}"
            )
    return [known[id_] for id_ in dict.fromkeys(ids)] or [*known.values()]


def _drawings(work: str) -> str:
    """For a message: what of a work cannot be asked for, since it shows no result."""
    if work not in _files():
        return ""
    return f". These of work {work} show no result and are not here: {without_result(work)}"


def rows(ids: Sequence[str]) -> list[Row]:
    """The rows called `ids`; all that are built without any.

    Raises:
        BadInput: there is no such table or figure, or it is not yet built.
    """
    found = find(ids)
    built = [entry for entry in found if isinstance(entry, Row)]
    if ids and len(built) < len(found):
        missing = next(entry for entry in found if not isinstance(entry, Row))
        raise BadInput(f"{missing.id} is not yet built: {missing.title}")
    return built


def _place(entry: Published) -> tuple[str, list[int], str]:
    """Work, then chapter and number, so that `000-tab-3.1` comes before `000-fig-3.4`."""
    work, kind, rest = entry.id.split("-", 2)
    number = re.match(r"[\d.]*", rest)
    figures = [int(part) for part in re.findall(r"\d+", number[0])] if number else []
    return work, figures, f"{rest} {kind}"
