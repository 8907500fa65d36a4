"""The log of what runs for long: with the time, one line per message whoever wrote its words."""

import copy
import logging

from weir.printable import printable


class LineFormatter(logging.Formatter):
    """A formatter whose messages stay on their line and leave terminals alone.

    What follows a message, such as a traceback, keeps its own lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        plain = copy.copy(record)
        plain.msg, plain.args = printable(record.getMessage()), None
        return "\n".join(map(printable, super().format(plain).split("\n")))


def to_stderr(level: int) -> None:
    """Sends what is logged from `level` on to the standard error output."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("%(asctime)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
