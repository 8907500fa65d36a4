"""A log is lines, whoever wrote the words in it."""

import io
import logging
import sys

from weir.logs import LineFormatter


def logged(write):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter("%(name)s: %(message)s"))
    logger = logging.Logger("weir.test")
    logger.addHandler(handler)
    write(logger)
    return stream.getvalue()


def test_a_message_stays_on_its_line_and_rules_no_terminal():
    text = logged(lambda logger: logger.warning("%s failed", "a\x1b[2J\nweir: all is well\x9b1m"))
    assert text == "weir.test: a\\x1b[2J\\nweir: all is well\\x9b1m failed\n"


def test_a_traceback_keeps_its_lines_and_nothing_else():
    def fail(logger):
        try:
            raise ValueError("\x1b[2J")
        except ValueError:
            logger.error("no", exc_info=sys.exc_info())

    text = logged(fail)
    assert text.splitlines()[0] == "weir.test: no"
    assert text.splitlines()[1] == "Traceback (most recent call last):"
    assert text.splitlines()[-1] == "ValueError: \\x1b[2J"
