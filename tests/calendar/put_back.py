"""Faults that the calendar had or could have, to be put back: the simulator finds each."""

import time

from weir.calendar.clock import Clock
from weir.calendar.service.events import EventHub
from weir.calendar.service.keeper import Keeper


def _wall_clock(patch):
    """The engine's time is the wall's, which steps back."""
    patch.setattr(Clock, "now_ns", lambda self: time.time_ns())
    patch.setattr(Clock, "observe", lambda self: None)


def _answered_before_stored(patch):
    """Every fifth admission is answered although its commit did not happen."""
    commit = Keeper._commit
    admissions = 0

    def sometimes(self, outcomes, snapshot):
        nonlocal admissions
        admissions += sum(outcome.admitted is not None for outcome in outcomes)
        if admissions >= 5:
            admissions = 0
            return
        commit(self, outcomes, snapshot)

    patch.setattr(Keeper, "_commit", sometimes)


def _made_and_not_told(patch):
    """A commit that was made and seemed to fail is never told to readers."""

    def skip_to(self, number):
        self.last_number, self._recent = number, []
        for reader in self._readers:
            reader.seen = number

    patch.setattr(EventHub, "skip_to", skip_to)


PUT_BACK = {
    "wall-clock": _wall_clock,
    "answered-before-stored": _answered_before_stored,
    "made-and-not-told": _made_and_not_told,
}
