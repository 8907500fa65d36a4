"""The choice of a congestion control, loaded where it can gain something: no file waits for it.

Most transfers are over at once, or cross a near network that loses nothing, and no control would
get more there. So nothing is loaded while that is so. A long path shows in how long its connections
take; the silence meanwhile tells whether others are there, for nothing (`opening`).
On a near path it is too short for that, but who has lost nothing there has nothing to gain: the
choice is loaded once packets are lost.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from weir.transfer import Transfer
from weir.transfer.watch import News, ThreadedCompanion

if TYPE_CHECKING:
    from weir.congestion.cycle.cycle import Selection
    from weir.congestion.cycle.samples import Samples

_SOON_S = 0.02  # within it small files are there on a near network
_STEP_S = 0.005  # between two looks while connections are made
_LOOK_S = 0.25  # and after that
_WORTH_S = 5.0  # a transfer that would be over by then gains nothing
_NICE = 10  # of what loads: beside others that want the same core it has a tenth of that
_SENT_AGAIN = slice(100, 104)  # tcpi_total_retrans in `struct tcp_info` of <linux/tcp.h>
_TOLD = frozenset({"advice", "deadline", "notice"})  # whoever did not ask wants these


class LazySelection(ThreadedCompanion):
    """A selection that begins where it can gain something; see `weir.congestion.cycle.cycle`.

    Args:
        transfer: that begins when this does.
        silence: makes samples of the path to its other end.
        select: loads the selection; its samples are of before the first byte, and what it needs.
        unasked: the control that the transfer has while nothing is chosen, where nobody asked for
            a choice; people are then told of what is changed, and not of what stays, nor that it
            could not be heard. None where it was asked for: all is told.
    """

    def __init__(
        self,
        transfer: Transfer,
        silence: "Callable[[], Samples]",
        select: "Callable[[Samples], Selection]",
        unasked: str | None = None,
    ) -> None:
        super().__init__("weir-lazy-selection")
        self._transfer, self._silence, self._select = transfer, silence, select
        self._selection: Selection | None = None
        self._unasked = unasked
        self._in_use = unasked, 1  # as far as people were told

    def stop(self) -> None:
        """The transfer is over; waits for the threads."""
        super().stop()
        if self._selection:
            self._selection.stop()

    def take_news(self) -> list[News]:
        """What there is to tell since the last call."""
        news = super().take_news()
        if self._selection:
            news += self._selection.take_news()
        return [self._for_people(one) for one in news] if self._unasked else news

    @property
    def status(self) -> str:
        """What the selection is at; nothing while all is as it would be without one."""
        status = self._selection.status if self._selection else ""
        return "" if status == self._unasked else status

    def _for_people(self, news: News) -> News:
        """Without words where nothing has changed."""
        if news.event == "choice":
            chosen = news.facts["control"], news.facts["streams"]
            if chosen != self._in_use:
                self._in_use = chosen
                return news
        return news if news.event in _TOLD else news._replace(words="")

    def _run(self) -> None:
        if self._stop.wait(_SOON_S):
            return
        silent = self._hears_silence()
        if silent is None:
            begun_ns = time.monotonic_ns()
            if not self._loses():
                return
            silent = self._silence()
            silent.until_ns = begun_ns
        if selection := self._load(silent):
            self._selection = selection
            selection.start()
        else:
            silent.end()

    def _hears_silence(self) -> "Samples | None":
        """Samples of the path until something is sent; None if that is too soon to tell."""
        if self._transfer.tcp_info():
            return None
        silent = self._silence()
        silent.begin()
        while not self._is_over and silent.are_few and silent.until_ns is None:
            silent.ends_with(self._transfer)
            self._stop.wait(_STEP_S)
        if silent.are_few:
            silent.end()
            return None
        return silent

    def _loses(self) -> bool:
        """Whether packets are lost while there is still much to send; waits until either shows."""
        while not self._stop.wait(_LOOK_S) and not self._transfer.is_over:
            has_lost = any(any(told[_SENT_AGAIN]) for told in self._transfer.tcp_info())
            if has_lost and self._left_s >= _WORTH_S:
                return True
        return False

    @property
    def _left_s(self) -> float:
        """How long the rest takes as it goes now."""
        rate_bps = self._transfer.progress().rate.bit_per_s
        return 8 * self._transfer.remaining.count / max(1, rate_bps)

    def _load(self, silent: "Samples") -> "Selection | None":
        """Makes the selection with what time the transfer leaves; None if that is over before."""
        made: list[Selection] = []
        done = threading.Event()

        def load() -> None:
            try:
                # This thread's own.
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
                made.append(self._select(silent))
            except Exception:
                # A fault of ours is no reason for the file to fail. Only here: others need no log.
                import logging

                logging.getLogger(__name__).exception("no congestion control could be chosen")
            finally:
                done.set()

        threading.Thread(target=load, name="weir-selection-load", daemon=True).start()
        while not done.wait(_STEP_S) and not self._is_over:
            silent.ends_with(self._transfer)
        return made[0] if made else None

    @property
    def _is_over(self) -> bool:
        return self._stop.is_set() or self._transfer.is_over
