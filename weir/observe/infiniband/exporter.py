"""The last sweeps for Prometheus: a gauge a port, and how many ports say nothing, and why.

A port that says nothing has no gauge: a stuck counter must not look like a calm port.
"""

import contextlib
import io
import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from weir.observe.infiniband.asking import Port
from weir.observe.infiniband.report import Waited, flags_told

_LABELS = ("port", "kind", "way")


class Exporter(Collector):
    """What Prometheus asks; `show` is given each sweep.

    Args:
        label: what people call a port.
    """

    def __init__(self, label: Callable[[Port], str]) -> None:
        self._label = label
        self._found: Sequence[Waited] = ()
        self._took_s = self._at_s = math.nan

    def show(self, found: Sequence[Waited], took_s: float) -> None:
        """The ports from the sweep before to the last one, which took so long."""
        self._found, self._took_s, self._at_s = found, took_s, time.time()

    def collect(self) -> Iterable[Metric]:
        """All metrics."""
        waited = GaugeMetricFamily(
            "weir_fabric_waited_ratio", "Share of the time without credits", labels=_LABELS
        )
        lost = GaugeMetricFamily(
            "weir_fabric_lost_bits_per_second", "What was not sent meanwhile", labels=_LABELS
        )
        for one in self._found:
            labels = (self._label(one.port), one.kind, one.way)
            for family, value in ((waited, one.fitf), (lost, one.lost_bps)):
                if not math.isnan(value):
                    family.add_metric(labels, value)
        silent = GaugeMetricFamily(
            "weir_fabric_ports_without_value", "Ports that say nothing", labels=("reason",)
        )
        for reason, count in flags_told(self._found).items():
            silent.add_metric((reason,), count)
        took = GaugeMetricFamily("weir_fabric_sweep_seconds", "How long the last sweep took")
        if not math.isnan(self._took_s):
            took.add_metric((), self._took_s)
        swept = GaugeMetricFamily("weir_fabric_swept_timestamp_seconds", "When the last one ended")
        if not math.isnan(self._at_s):
            swept.add_metric((), self._at_s)
        return (waited, lost, silent, took, swept)


@contextlib.contextmanager
def served(exporter: Exporter, listener: socket.socket) -> Iterator[None]:
    """Answers whoever asks, each in a thread; whoever takes nothing for a while is cut off.

    Args:
        exporter: which is asked.
        listener: which listens; it is closed at the end.
    """
    registry = CollectorRegistry()
    registry.register(exporter)
    host, port = listener.getsockname()[:2]
    server = _Server((host, port), _Handler, bind_and_activate=False)
    server.socket.close()
    server.socket, server.server_name, server.server_port = listener, host, port
    server.setup_environ()
    server.set_app(make_wsgi_app(registry))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


class _Handler(WSGIRequestHandler):
    """Says nothing of what it does, and waits for nobody for ever."""

    timeout = 30.0

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: who asks is no news."""

    def get_stderr(self) -> io.StringIO:
        """Nowhere: that somebody went away is no news either."""
        return io.StringIO()


class _Server(ThreadingWSGIServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: whoever asked has gone, or was cut off."""
