"""What a program says to whoever started it: lines on its standard output, each as it is known.

`studies.rig.processes.json_lines` is the other end.
"""

import json
import os
import sys
import threading

_READER_GONE = 141  # 128 + SIGPIPE
_LINES = threading.Lock()


def write_line(text: object) -> None:
    """Says a line, whole whichever thread says it."""
    with _LINES:
        try:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
        except BrokenPipeError:
            os._exit(_READER_GONE)  # whoever started it has gone, and this one goes without a word


def write_json(value: object) -> None:
    """Says a value, as JSON in one line."""
    write_line(json.dumps(value))
