"""Samples as a file: CSV or Parquet, by its suffix; `docs/probe.md` explains the columns."""

import contextlib
import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

from weir import files
from weir._core import ParquetTable
from weir.errors import BadInput
from weir.probe.sample import Sample
from weir.probe.tcp_info import TcpInfo

Value = int | float | str | None


def _ms(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e6, 6)


def _rtts(sample: Sample) -> str:
    return " ".join("-" if rtt is None else f"{rtt / 1e6:.6f}" for rtt in sample.rtts_ns)


def _of_tcp(take: Callable[[TcpInfo], Value]) -> Callable[[Sample], Value]:
    return lambda sample: None if sample.tcp is None else take(sample.tcp)


# Name, kind and value of each column; `t_s`, which needs the beginning, comes first.
COLUMNS: list[tuple[str, str, Callable[[Sample], Value]]] = [
    ("sample", "count", lambda sample: sample.index),
    ("rtt_ms", "real", lambda sample: _ms(sample.rtt_ns)),
    ("rtt_min_ms", "real", lambda sample: _ms(sample.min_ns)),
    ("rtts_ms", "text", _rtts),
    ("requests", "count", lambda sample: len(sample.rtts_ns)),
    ("replies", "count", lambda sample: len(sample.replies_ns)),
    ("late_ms", "real", lambda sample: _ms(sample.late_ns)),
    ("segment", "text", lambda sample: sample.segment),
    ("srtt_ms", "real", _of_tcp(lambda tcp: _ms(tcp.srtt_ns))),
    ("rttvar_ms", "real", _of_tcp(lambda tcp: _ms(tcp.rttvar_ns))),
    ("min_rtt_ms", "real", _of_tcp(lambda tcp: _ms(tcp.min_rtt_ns))),
    ("cwnd_packets", "count", _of_tcp(lambda tcp: tcp.cwnd_packets)),
    ("mss_bytes", "count", _of_tcp(lambda tcp: tcp.mss_bytes)),
    ("in_flight_packets", "count", _of_tcp(lambda tcp: tcp.in_flight_packets)),
    ("pacing_rate_bps", "count", _of_tcp(lambda tcp: tcp.pacing_rate_bps)),
    ("delivery_rate_bps", "count", _of_tcp(lambda tcp: tcp.delivery_rate_bps)),
    ("app_limited", "count", _of_tcp(lambda tcp: tcp.app_limited)),
    ("acked_bytes", "count", _of_tcp(lambda tcp: tcp.acked_bytes)),
    ("sent_bytes", "count", _of_tcp(lambda tcp: tcp.sent_bytes)),
    ("retransmitted_bytes", "count", _of_tcp(lambda tcp: tcp.retransmitted_bytes)),
    ("retransmitted_packets", "count", _of_tcp(lambda tcp: tcp.retransmitted_packets)),
    ("lost_packets", "count", _of_tcp(lambda tcp: tcp.lost_packets)),
    ("delivered_packets", "count", _of_tcp(lambda tcp: tcp.delivered_packets)),
    ("marked_packets", "count", _of_tcp(lambda tcp: tcp.marked_packets)),
    ("ecn", "count", _of_tcp(lambda tcp: tcp.ecn)),
    ("unsent_bytes", "count", _of_tcp(lambda tcp: tcp.unsent_bytes)),
    ("busy_ms", "real", _of_tcp(lambda tcp: _ms(tcp.busy_ns))),
    ("peer_limited_ms", "real", _of_tcp(lambda tcp: _ms(tcp.peer_limited_ns))),
    ("buffer_limited_ms", "real", _of_tcp(lambda tcp: _ms(tcp.buffer_limited_ns))),
    ("recovering", "count", _of_tcp(lambda tcp: tcp.recovering)),
]


def row(sample: Sample, begin_ns: int) -> dict[str, Value]:
    """A sample by column; `begin_ns` is when sample 0 was due."""
    values: dict[str, Value] = {"t_s": round((sample.at_ns - begin_ns) / 1e9, 9)}
    for name, kind, take in COLUMNS:
        value = take(sample)
        # A flag is a count of 0 or 1.
        values[name] = int(value) if kind == "count" and value is not None else value
    return values


class _File(Protocol):
    def append(self, row: list[Any]) -> None: ...

    def close(self) -> None: ...


class _Csv:
    def __init__(self, path: Path, names: list[str]) -> None:
        # Line by line, so that what is read during a long probing is whole lines.
        self._file: IO[str] = path.open("w", newline="", buffering=1)
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(names)

    def append(self, row: list[Any]) -> None:
        self._writer.writerow(row)

    def close(self) -> None:
        self._file.close()


class Record:
    """A file that takes samples; `close` makes it whole.

    CSV is read while it grows. Parquet is nothing until it is whole, and has its name then.

    Args:
        path: ends with `.csv` or `.parquet`.

    Raises:
        BadInput: it ends otherwise, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        kinds = [("t_s", "real"), *((name, kind) for name, kind, _ in COLUMNS)]
        self._path = self._place = path
        self._name = contextlib.ExitStack()
        try:
            match path.suffix.lower():
                case ".csv":
                    self._file: _File = _Csv(path, [name for name, _ in kinds])
                case ".parquet":
                    with contextlib.ExitStack() as named, self._told():
                        self._place = named.enter_context(files.whole(path))
                        self._file = ParquetTable(self._place, kinds)
                        self._name = named.pop_all()
                case suffix:
                    ends = f"ends with {suffix}" if suffix else "has no suffix"
                    raise BadInput(f"{path} {ends}; .csv and .parquet are possible")
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from None

    def append(self, sample: Sample, begin_ns: int) -> None:
        """Adds a sample.

        Raises:
            BadInput: the file cannot be written any more.
        """
        with self._told():
            self._file.append(list(row(sample, begin_ns).values()))

    def close(self) -> None:
        """Makes the file whole.

        Raises:
            BadInput: it cannot be written any more.
        """
        with self._told(), self._name:
            self._file.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Calls the file as whoever named it does."""
        try:
            yield
        except OSError as error:
            raise BadInput(f"{self._path}: {error.strerror}") from None
        except BadInput as error:
            raise BadInput(str(error).replace(str(self._place), str(self._path))) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
