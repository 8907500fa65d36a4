"""Row 003-own-2.6.3-live: what clients offer is what servers are offered, through relays."""

import re
import shutil
from pathlib import Path

import pytest
from rig import lab_lacks

from studies.rig import offered
from studies.works.row import Verdict
from studies.works.w003.ch2_options_live import ROWS, offers, run
from weir.lab import switches

(ROW,) = ROWS
# MSS 1460, SACK, timestamps, a byte of padding, and a scale of 7, as Linux sends them.
LINUX = "020405b40402080a0000000100000000" + "01" + "030307"


def lacks():
    """What the row needs and is not here; none if nothing is."""
    nft = None if shutil.which("nft") else "nft is not installed (Debian nftables)"
    return switches.missing() or nft or lab_lacks()


def found(**arrived):
    """Two offers, of which the second arrives as told."""
    left = {"MSS": "05b4", "SACK": "", "timestamps": "", "scale of windows": "07"}
    return [[[left, left], [{"MSS": "03e8"}, {"MSS": "03e8"} | arrived]]]


def test_options_are_read_as_they_are_written():
    assert offered.options(LINUX) == {2: "05b4", 4: "", 8: "0000000100000000", 3: "07"}
    assert offered.options("0101020405b400ff") == {2: "05b4"}


def test_the_row_holds_where_all_arrive():
    assert len(offers(True)) == 9 and len(offers(False)) == 32
    assert ROW.judge(found()).verdict == Verdict.MATCHES


@pytest.mark.parametrize("spoilt", [{"MSS": "05b4"}, {"SACK": ""}, {"option 30": "00"}])
def test_it_differs_where_one_does_not(spoilt):
    (name,) = spoilt
    outcome = ROW.judge(found(**spoilt))
    assert outcome.verdict == Verdict.DIFFERS
    assert (
        f"1 of 2 first packets (2 different ones) arrive with all; not the same: {name}"
        in outcome.ours
    )


def test_the_split_end_has_the_rules_of_the_page():
    page = (Path(__file__).parents[3] / "docs" / "relay.md").read_text(encoding="utf-8")
    lines = re.findall(r"^nft (.*)$", page, re.MULTILINE)
    assert [x.strip("'") for x in lines if " inet weir" in x] == list(offered.rules())


@pytest.mark.skipif(lacks() is not None, reason=f"cannot run: {lacks()}")
def test_what_clients_offer_arrives():
    assert ROW.judge([run(quick=True, seed=1)]).verdict == Verdict.MATCHES
