"""One sample of a path: what every recogniser consumes, live or from a file."""

from dataclasses import dataclass

from weir.probe.tcp_info import TcpInfo


@dataclass(frozen=True, slots=True)
class Sample:
    """A burst of echo requests, and what the kernel told of our own TCP at that instant.

    Samples come in order, one for each period of the probing, 1 to 100 a second; none is left
    out. 001-spec section 5.3; formula F4.

    Attributes:
        index: number of the sample, from 0.
        at_ns: when its first request was due, CLOCK_MONOTONIC: exactly `index` periods after
            that of sample 0, whatever the machine did.
        late_ns: by how much the latest of its requests left after its time. A property of this
            machine, not of the path; 0 for a sample that was missed.
        rtts_ns: round-trip time of each request that was sent, None for one that was lost: not
            answered within the timeout. Empty when the machine was late by more than a period,
            and the sample was missed: nothing was sent, so nothing was lost.
        held_ns: mean round-trip time of the last sample before this one that had any; None when
            there was none. It stands in where this one has no reply.
        segment: what our own traffic was doing when the sample was due, such as "C5" (section
            5.4); None in passive probing.
        tcp: state of our own connection when the first request left; None without one.
    """

    index: int
    at_ns: int
    late_ns: int
    rtts_ns: tuple[int | None, ...]
    held_ns: float | None = None
    segment: str | None = None
    tcp: TcpInfo | None = None

    @property
    def replies_ns(self) -> list[int]:
        """Round-trip times of the answered requests, in the order of the requests."""
        return [rtt for rtt in self.rtts_ns if rtt is not None]

    @property
    def lost(self) -> int:
        """Requests that were not answered in time."""
        return self.rtts_ns.count(None)

    @property
    def missed(self) -> bool:
        """Whether this machine was too late to send any request."""
        return not self.rtts_ns

    @property
    def mean_ns(self) -> float | None:
        """Mean round-trip time of the answered requests: the thesis's value of a sample."""
        replies = self.replies_ns
        return sum(replies) / len(replies) if replies else None

    @property
    def min_ns(self) -> int | None:
        """Least round-trip time of the answered requests."""
        return min(self.replies_ns, default=None)

    @property
    def rtt_ns(self) -> float | None:
        """The mean, or the held one where there was no reply (001-spec, ambiguity A-12)."""
        mean = self.mean_ns
        return self.held_ns if mean is None else mean

    @property
    def held(self) -> bool:
        """Whether `rtt_ns` is an earlier sample's."""
        return not self.replies_ns
