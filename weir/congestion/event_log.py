"""The event log: what happens beside a transfer, told to people and kept as JSON lines."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, TextIO

from weir.transfer.watch import News


class EventLog:
    """Tells people of events, and appends them to a log, a JSON object a line.

    When the log cannot be written any more, that is told, and nothing more is written.

    Args:
        add_news: takes what is to be told.
        log: gets a line for each event; None for no log.
        label: on each line, to tell runs apart; empty for none.
    """

    def __init__(
        self, add_news: Callable[[News], None], log: TextIO | None = None, label: str = ""
    ) -> None:
        self._add_news = add_news
        self._log = log
        self._label = label

    def tell(self, event: str, words: str, **facts: Any) -> None:
        """Tells of an event and appends it to the log."""
        self._add_news(News(words, event, facts))
        self.note(event, **facts)

    def note(self, event: str, **facts: Any) -> None:
        """Appends an event to the log alone."""
        if self._log is None:
            return
        told = {"event": event, "time": datetime.now().astimezone().isoformat()}
        told |= {"label": self._label} if self._label else {}
        try:
            self._log.write(json.dumps(told | facts) + "\n")
            self._log.flush()
        except OSError as error:
            name, self._log = self._log.name, None
            words = f"{name}: {error.strerror}; nothing more is written there"
            self._add_news(News(words, "notice", {"message": words}))
