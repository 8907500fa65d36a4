"""What was measured of real hosts at full size, kept beside the page run by run.

Such a row takes hours in which the machine does nothing else, so every run is kept as it ends. An
entry serves later versions of the code, too: it is a measurement, and says by which version. What
was simulated beside it is of that version as well, and made anew for later ones
(`beside_simulated.simulated_again`). To measure again, delete its line. There is a file for each
function, of JSON lines.
"""

import json
import os
from pathlib import Path

from weir import __version__
from weir.errors import Unsupported
from weir.runs.cache import Result
from weir.runs.point import Point
from weir.runs.version import code_version


class Measured:
    """The entries in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, point: Point) -> Result | None:
        """The result of an equal point, if there is a whole one.

        Raises:
            Unsupported: the entries cannot be read.
        """
        path = self._path(point)
        try:
            lines = path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unsupported(f"cannot read what was measured, {path}: {error.strerror}") from None
        wanted = json.loads(json.dumps(point.arguments))
        for line in lines:
            try:
                entry = json.loads(line)
                if entry["arguments"] == wanted:
                    return Result(entry["result"], float(entry["seconds"]), str(entry["code"]))
            except (ValueError, TypeError, KeyError, RecursionError):
                continue  # cut off or damaged: measured again
        return None

    def put(self, point: Point, result: Result) -> None:
        """Keeps a result; it is on the disk when this returns.

        Raises:
            Unsupported: it cannot be written.
        """
        entry = {
            "arguments": point.arguments,
            "result": result.value,
            "seconds": result.seconds,
            "version": __version__,
            "code": code_version(point.run.__module__),
        }
        path = self._path(point)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab+") as file:
                if file.tell() and (file.seek(-1, os.SEEK_END), file.read())[1] != b"\n":
                    file.write(b"\n")  # after a line that was cut off
                file.write(f"{json.dumps(entry, ensure_ascii=False)}\n".encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Unsupported(f"cannot keep a result in {path}: {error.strerror}") from None

    def _path(self, point: Point) -> Path:
        module = point.run.__module__.rpartition(".")[2]
        return self._folder / f"{module}.{point.run.__qualname__}.jsonl"
