"""Two services of one store, of which one serves and the other stands by."""

import shutil
import subprocess

from calendar_lab import NETWORK, CalendarProcess, wait_for

from weir.calendar.client import CalendarClient


class Pair:
    """`serving` and `waiting`; whoever kills the first makes the second serve."""

    def __init__(self, folder, store, network=NETWORK):
        self.serving, self.waiting = (
            self._service(folder / name, store, network) for name in ("first", "second")
        )
        shutil.copy(self.serving.tokens, self.waiting.tokens)
        self.token = self.waiting.token = self.serving.token
        self.url = f"{self.serving.url}, {self.waiting.url}"

    @staticmethod
    def _service(place, store, network):
        place.mkdir()
        return CalendarProcess(place, store, network, ["--standby"])

    def start(self):
        self.serving.start()
        self._stand_by(self.waiting)

    def swap(self):
        """After a kill: the killed one stands by for the one that has taken its place."""
        self.serving, self.waiting = self.waiting, self.serving
        self._stand_by(self.waiting)

    def stop(self):
        self.serving.stop()
        self.waiting.stop()

    def client(self):
        """A client of whichever serves."""
        return CalendarClient(self.url, self.token)

    def log(self):
        """What both have said."""
        return f"{log(self.serving)}{log(self.waiting)}"

    @staticmethod
    def _stand_by(service):
        """Starts a service, and waits until it says that another one has the store."""
        before = log(service).count("standing by")
        with (service.directory / "calendar.log").open("ab") as out:
            service.process = subprocess.Popen(service.command(), stdout=out, stderr=out)
        wait_for(lambda: log(service).count("standing by") > before)


def log(service):
    """What a service has said since it was first started."""
    path = service.directory / "calendar.log"
    return path.read_text() if path.exists() else ""
