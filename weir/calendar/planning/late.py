"""What becomes of a promise that is behind and that the links cannot keep beside all others.

A policy that plans ahead reserves room until the deadline less the margin, and no longer. Who is
behind lacks some of it, and has none once that time has come: on a link that is promised to the
full everybody else's reservations go first, and what it lacks is promised to whoever asks next. So
it is planned anew. First within the margin, which is there for that. Else in the place of one whose
promise is lost already: what is lost with one promise is better lost with it than with two (as with
J. Moore, Management Science 1968, where the one that is late makes room for all others). Else for
the earliest end that is left, and from then on that is reserved.
"""

from collections.abc import Iterable

from weir.calendar.clock import NS_PER_S
from weir.calendar.planning.risks import Risks
from weir.calendar.records import Outcome, Transfer

# Those that are behind are planned anew this often, the most urgent first and so many at once, that
# answers are not held up where thousands are; each of them so often, and one whose promise is lost
# less so: each time is told.
EVERY_NS = NS_PER_S // 10
MOST_BEHIND = 4
AGAIN_NS = NS_PER_S
LOST_AGAIN_NS = 10 * NS_PER_S
# So many of those whose promises are lost are asked for their place.
MOST_ASKED = 3


class Late(Risks):
    """A plan in which whoever is late is planned for later, and alone is late."""

    def _catch_up(self, outcome: Outcome, now_ns: int, behind: Iterable[Transfer]) -> None:
        """Plans anew those that are behind what is reserved for them."""
        if not self._plans_ahead:
            return
        due = [x for x in behind if x.state != "waiting" and self._is_due_again(now_ns, x)]
        # Past its deadline one may be as it was planned.
        lacking = self.engine.behind([x.id for x in due]) if due else ()
        due = sorted((x for x in due if x.id in lacking), key=lambda x: (x.deadline_ns, x.id))
        for transfer in due:
            spent_ns = max(self._spent_ns, now_ns - MOST_BEHIND * EVERY_NS) + EVERY_NS
            if spent_ns > now_ns:
                break
            self._spent_ns = spent_ns
            # An earlier one may have been given its place, and it may have found no other.
            if self.transfers[transfer.id].planned:
                self._plan_late(outcome, now_ns, self.transfers[transfer.id])

    def _is_due_again(self, now_ns: int, transfer: Transfer) -> bool:
        again_ns = LOST_AGAIN_NS if transfer.plan_ns > transfer.deadline_ns else AGAIN_NS
        tried_ns = self._replanned_ns.get(transfer.id, 0)
        return transfer.planned and not self._is_lost(transfer) and now_ns - tried_ns >= again_ns

    def _plan_late(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> None:
        if self.engine.earliest_end_ns(transfer.id) is None:
            # Its link carries nothing: what is reserved for it is there once it does again.
            return
        freed_ns = self._freed_ns
        self._drop(outcome, now_ns, transfer)
        unplanned = self.transfers[transfer.id]
        if not (
            self._plan(outcome, now_ns, unplanned)
            or self._plan(outcome, now_ns, unplanned, self._latest_plan_ns(transfer))
            or self._takes_place(outcome, now_ns, unplanned)
        ):
            self._replan(outcome, now_ns, self.transfers[transfer.id])
        # Room that is left and taken again is nothing new.
        self._freed_ns = freed_ns

    def _takes_place(self, outcome: Outcome, now_ns: int, transfer: Transfer) -> bool:
        """Plans a transfer in the place of one whose promise is lost, which then ends later."""
        near = {x for link in transfer.links for x in self._crossing.get(link, ())}
        lost = [x for x in map(self.transfers.__getitem__, near) if self._has_lost(x)]
        lost.sort(key=lambda x: (-x.due_bytes, x.id))
        for other in lost[:MOST_ASKED]:
            self._drop(outcome, now_ns, other)
            latest_ns = self._latest_plan_ns(transfer)
            has_room = self._plan(outcome, now_ns, self.transfers[transfer.id], latest_ns)
            self._replan(outcome, now_ns, self.transfers[other.id])
            self._risks(outcome, now_ns, [self.transfers[other.id]])
            if has_room:
                return True
        return False

    def _has_lost(self, transfer: Transfer) -> bool:
        """Whether it is planned, and for later than its deadline."""
        is_bound = transfer.planned and not transfer.is_unbound and transfer.state != "waiting"
        return is_bound and transfer.plan_ns > transfer.deadline_ns
