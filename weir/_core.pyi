"""Types of the compiled core; one section per crate, in the order of `crates/python/src`."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Self

__version__: str
# A digest of the sources of all crates: the same wherever the same ones were built.
__source__: str

# --- units ---

class Time:
    """An instant or a span, in whole nanoseconds."""

    def __init__(self, text: str | Time) -> None: ...
    @staticmethod
    def from_ns(value: int) -> Time: ...
    @property
    def ns(self) -> int: ...
    def __lt__(self, other: Self) -> bool: ...
    def __le__(self, other: Self) -> bool: ...
    def __gt__(self, other: Self) -> bool: ...
    def __ge__(self, other: Self) -> bool: ...

class Rate:
    """A data rate, in whole bits per second."""

    def __init__(self, text: str | Rate) -> None: ...
    @staticmethod
    def from_bit_per_s(value: int) -> Rate: ...
    @property
    def bit_per_s(self) -> int: ...
    def __lt__(self, other: Self) -> bool: ...
    def __le__(self, other: Self) -> bool: ...
    def __gt__(self, other: Self) -> bool: ...
    def __ge__(self, other: Self) -> bool: ...

class Bytes:
    """An amount of data, in whole bytes."""

    def __init__(self, text: str | Bytes) -> None: ...
    @staticmethod
    def from_count(value: int) -> Bytes: ...
    @property
    def count(self) -> int: ...
    def __lt__(self, other: Self) -> bool: ...
    def __le__(self, other: Self) -> bool: ...
    def __gt__(self, other: Self) -> bool: ...
    def __ge__(self, other: Self) -> bool: ...

# --- application ---

def application_parameters() -> str:
    """Every application that a scenario can name, with its parameters, as JSON.

    A list of `{"kind", "nagle": whether its programs leave Nagle's algorithm on, "opener":
    "client", or "sender" of what is sent, "parameters": [{"name", "key": the same in the core's
    configuration, with its unit, "kind": "time" (above 0), "pause" (a time from 0), "size", "rate",
    "per-second" (a time, whose inverse the key takes), "positive", "number" (from 0), "count" or
    "flag", "least" and "most" of a size or count, "default": None where it must be given}]}`.
    """

class GameConnections:
    """The connections of one client of a casual game as its server writes them, without end.

    They are those of the application "game" over a network that takes no time, and follow from
    the seed and the name. Each is its beginning in ns after the traffic's, the mean gap between
    its messages in s, and of each message the ns from the beginning to its writing, and its bytes.
    """

    def __init__(self, seed: int, name: str, think_ns: int) -> None:
        """`think_ns` is the mean time from one connection to the next."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[int, float, list[tuple[int, int]]]: ...

class Bursts:
    """The rates of the Poisson-Pareto burst process (000-spec section 3.6.1), without end.

    Each is an instant in ns after the source's start, and the rate in bit/s from then on. `key` is
    the seed's words of 32 bits, the lowest first: draws are those of Python's `random.Random`.
    """

    def __init__(
        self, key: Sequence[int], rate_bps: int, interval_s: float, mean_s: float, hurst: float
    ) -> None:
        """`rate_bps` is that of each burst, `interval_s` the mean from one beginning to the next.

        `mean_s` is the mean length of a burst; lengths are Pareto of shape 3 - 2 `hurst`.
        """
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[int, int]: ...

# --- emulate ---

class Emulator:
    """Links in real time between pairs of TUN devices that it makes itself.

    `config_json` is `{"seed": n, "links": [{"name", "a": END, "b": END, "forward": DIRECTION,
    "backward": DIRECTION, "channel": name or null}], "channels": [{"name", "config": CHANNEL}]}`,
    forward from a to b, CHANNEL as for `simulate_packets`. END is `{"netns": path of a namespace
    file, "device": interface name, "mtu": bytes}`; addresses, routes and "up" are the caller's.
    With `"ethernet": true` it is a switch's port: a TAP device, for whole frames. A link with a
    channel is wireless: its ends have `"station": name`, and no `"ethernet"`.
    DIRECTION is `{"rate_bps": n or null, "delay_ns": n, "jitter_ns": n, "loss": null or
    {"model": "bernoulli", "probability": p} or {"model": "gilbert-elliott", "p", "r", "h", "k"},
    "queue": {"discipline": name, "limit": {"bytes" or "packets" or "ns": n}, parameters}}`, for
    which see `docs/queues.md`. Jitter is uniform around the delay and keeps the order of packets;
    `h` and `k` are the chances to survive the bad and the good state, as in netem.
    """

    def __init__(self, config_json: str) -> None:
        """Checks everything; `BadInput` names the link and the key."""
    def start(self) -> None:
        """Makes the devices and starts the links; `Unsupported` if the machine does not allow."""
    def stats(self) -> str:
        """Every counter since the start as JSON, `{"links": [...], "headroom": {...}}`."""
    def set_carrier(self, link: str, carrier: bool) -> None:
        """Cuts a link's cable, or puts it in again: both devices have a carrier, or none."""
    def stop(self) -> None:
        """Ends the links and removes the devices; does nothing the second time."""

# --- live ---

class LiveApplication:
    """An application over the kernel's TCP, both its ends: the very one of the simulator.

    `config_json` is `{"seed": n, "name", "address", "port", "dscp", "congestion": name or null,
    "keep_requests": bool, "application": {"kind": ...}}`, the last as for `simulate_packets` but
    neither `bulk` nor datagrams; without "congestion" connections have the host's own. `BadInput`
    names what cannot be right. The side that opens connections is the receiver of the traffic, of
    `messages` the sender; `address` is the other's.
    """

    def __init__(self, config_json: str) -> None:
        """Checks everything."""
    def listen(self) -> None:
        """Accepts connections in the calling thread's network namespace; `Unsupported` if not."""
    def run(self, until_ns: int) -> None:
        """Runs until an instant of CLOCK_MONOTONIC, opening from the namespace of the caller.

        The first call starts the application. Signal handlers run meanwhile, and may raise.
        """
    def finish(self) -> str:
        """Ends it: `{"delivered_bytes", "elapsed_ns", "failed_connections", "application"}`.

        With `keep_requests` also the "requests" of web load that were answered, if any:
        `[begun after the start in ns, bytes of the object, ns until its end]` each.
        """

class LiveDatagrams:
    """The sending end of UDP by a source of the simulator, from the namespace of its maker.

    `config_json` is `{"address", "port", "dscp", "ecn": 0 to 3, "source": {"kind": ...}}`, the last
    "udp" or "udp-rates" as for `simulate_packets`. `BadInput` names what cannot be right,
    `Unsupported` what the kernel refuses.
    """

    def __init__(self, config_json: str) -> None:
        """Checks everything and makes the socket."""
    def run(self, begin_ns: int, until_ns: int) -> None:
        """Sends from one instant of CLOCK_MONOTONIC to another; the source begins with the first.

        What comes due within half a millisecond leaves together. Signal handlers run meanwhile, and
        may raise. `BadInput` when the payload does not fit the packets of the path.
        """
    def sent(self) -> str:
        """What was sent so far: `{"packets", "payload_bytes", "stalled_s"}`.

        The last is time that the machine kept it from running for more than 50 ms at once, which it
        left out.
        """

# --- packet ---

def simulate_packets(
    config_json: str, captures: Sequence[tuple[str, str]] = (), traces: str | None = None
) -> str:
    """Runs a packet simulation; returns what it found as JSON.

    `config_json` is `{"seed": n, "duration_ns": n, "warmup_ns": n, "sample_ns": n, "trace": bool,
    "nodes": [{"name", "forwards": bool}], "channels": [{"name", "config": CHANNEL}], "links":
    [{"name", "ends": [name, name], "mtu_bytes": n, "medium": MEDIUM, "forward": DIRECTION,
    "backward": DIRECTION}], "traffic": [{"name", "draws", "from", "to", "start_ns", "stop_ns",
    "dscp", "ecn", "application": {"kind": ...}}]}` with DIRECTION as for `Emulator`, CHANNEL
    `{"standard": "802.11g", "cw_min", "cw_max", "retry_limit", "airtime_fairness"}` and MEDIUM
    `{"kind": "wired"}`, `{"kind": "wlan", "channel": name}` or `{"kind": "credits",
    "buffer_bytes": n, "input": "voq", "control": {"marking_rate": n, "manager_ns": n}}`, the latter
    where ports mark; a traffic's random numbers follow from `draws` (by default
    its name) and the seed. Links, applications and the result are described in
    `docs/packet.md`. `captures` are pairs of a node and a file, which gets what the node sends and
    receives as pcapng. `traces` is a directory, which gets every look as `queues.parquet` and
    `connections.parquet`; with "trace" looks and requests are in the result.

    Raises `BadInput` that names the place, or the file that could not be written.
    """

# --- probe ---

class Echo:
    """Sends numbered requests through a connected socket, and tells the replies apart.

    `framing` is "udp", "icmp", "icmp-raw" or "icmpv6". `BadInput` for another, `OSError` for what
    is not a descriptor; the socket stays the caller's.
    """

    def __init__(self, descriptor: int, framing: str) -> None: ...
    def send(self, key: int) -> None: ...
    def replies(self) -> list[tuple[int, int, bool]]:
        """Key, round-trip time in ns, and whether the kernel stamped both ways."""
    def refused(self) -> str:
        """What the network said when it did not take or deliver a request, "" if nothing."""
    def stamped(self) -> int: ...

class Prober:
    """Carries out a plan in a thread of its own; ends when collected.

    Args:
        period_ns: from sample to sample, a fraction: numerator and denominator.
        begin_ns: when sample 0 is due, CLOCK_MONOTONIC.
        connection: descriptor of our own TCP connection, for what the kernel tells of it.
    """

    def __init__(
        self,
        echo: Echo,
        *,
        period_ns: tuple[int, int],
        requests: int,
        samples: int | None,
        timeout_ns: int,
        begin_ns: int,
        connection: int | None,
    ) -> None: ...
    def take(
        self,
    ) -> list[tuple[int, int, int, tuple[int | None, ...], float | None, bytes | None]] | None:
        """Samples as they are completed; none if there was none for 0.1 s, None at the end.

        Index, due and late in ns, round-trip times in ns, the held one, `struct tcp_info`.
        """
    def stop(self) -> None: ...
    def is_realtime(self) -> bool: ...

# --- relay ---

class Relay:
    """One end of an aggregate, or a proxy alone, in a thread of its own; ends when collected.

    Addresses are texts such as "10.0.0.1:7500", networks such as "10.0.0.0/8". `BadInput`: one is
    none, or cannot be listened at.
    """

    @staticmethod
    def join(
        listen: str,
        split: str,
        server: str | None,
        weights: list[tuple[str, int]],
        congestion: str | None,
        told: bool = False,
        held: tuple[int, int, int, int] | None = None,
        announced: bool = False,
        gone_after_s: int | None = None,
        heard_within_s: int | None = None,
        each_at_most: int | None = None,
        at_most: int | None = None,
        literal: bool = False,
    ) -> Relay:
        """The end towards clients; no server: each client's own, by TPROXY.

        `announced`: those that `announce` tells of, and nobody else.

        `told`: the split end tells what servers acknowledge. `held`: so it does, and clients are
        acknowledged nothing else: by the filter with these maps (their descriptors), and these
        marks, of connections and of what releases (`weir.relay.hold`). With `literal` all clients
        together are acknowledged what all servers together have, in the order of what was joined.

        `gone_after_s`: after so many seconds a client that is silent, and is not there when it is
        asked, is given up (100 where nothing is said); so it is with the other kinds of relays.

        `heard_within_s`: within so many seconds there is a sign of the other end, or the aggregate
        is given up (40). `each_at_most`: connections that a client's address may have at a time
        (16384), with IPv6 a network of 64 bits. `at_most`: connections that are joined at a time
        (65532).
        """
    @staticmethod
    def split(
        listen: str,
        origins: list[str],
        servers: list[tuple[str, int | None]],
        as_client: bool,
        congestion: str | None,
        announced: bool = False,
        gone_after_s: int | None = None,
        heard_within_s: int | None = None,
    ) -> Relay:
        """The end towards servers: whence aggregates may come, and which servers they may reach.

        `announced`: for clients that `announce` tells of, and nobody else.
        """
    @staticmethod
    def proxy(
        listen: str,
        server: str | None,
        as_client: bool,
        congestion: str | None,
        gone_after_s: int | None = None,
    ) -> Relay: ...
    def address(self) -> tuple[str, int]: ...
    def status(self) -> list[tuple[str | None, dict[str, Any]]]:
        """What has happened: the relay's own status, then one for each aggregate that has come."""
    def set_weights(self, weights: list[tuple[str, int]]) -> bool:
        """Gives clients other weights, by their networks; False: nothing is joined here."""
    def announce(
        self,
        clients: list[tuple[str, int, str, str | None, tuple[int | None, int | None, bool, bool]]],
    ) -> bool:
        """Announces clients; False: whoever comes is taken here.

        Each with its UID, its server, the address from which that is connected to, and what it has
        offered: MSS, scale of windows, selective acknowledgements, timestamps.
        """
    def forget(self, clients: list[str]) -> bool:
        """Takes announcements back; False: as before."""
    def announced(self, is_all: bool) -> list[tuple[str, int, str, str | None, str]] | None:
        """Clients with UID, server, source, and "awaited", "here" or "over"; None: as before.

        Without `is_all` those that are here are left out.
        """
    def is_over(self) -> bool: ...
    def stop(self) -> str | None:
        """Ends it; why it had ended by itself, if it had."""

# --- queue ---

def queue_refusal(config_json: str, rate_bps: int) -> tuple[str, str] | None:
    """The key of a queue configuration that cannot be right on such a link and why, or None.

    `config_json` is what stands as "queue" in the emulator's configuration; an unknown key or a
    value of the wrong type is `BadInput`.
    """

def queue_limit(config_json: str, rate_bps: int) -> tuple[int | None, int | None, int]:
    """What each class of a queue holds at most on such a link, and how many classes it has.

    Returns:
        Bytes, or None; packets of any size, or None; the classes that share the limit evenly.
    """

def queue_parameters() -> str:
    """Every queue discipline with its parameters beside `limit`, as JSON.

    A list of `{"discipline", "limits_itself": whether it has a limit by default, "parameters":
    [{"name", "key": the same in a configuration, with its unit, "kind": "time", "size", "rate",
    "per-second", "number", "count", "flag", "amount", "choice", "classes" or "weighted-classes",
    "choices", "required", "default", "unset": what holds where there is no default value}]}`.
    """

# --- link ---

def link_refusal(
    shared_json: str, direction_json: str | None, mtu_bytes: int
) -> tuple[str, str] | None:
    """The key of a wireless or credit-based link that cannot be right and why, or None.

    `shared_json` is `{"kind": "wlan", ...}` with the keys of a channel or `{"kind": "credits",
    "buffer_bytes": n, "input": "voq" or "fifo"}`, `direction_json` a direction as for `Emulator`;
    without one only the channel is looked at. An unknown key is `BadInput`.
    """

# --- topology ---

def g_scale() -> str:
    """The JSON form of G-scale (B4): sites `1` to `12`, 19 links of 10 Gbit/s each way."""

def six_routers() -> str:
    """The JSON form of the six routers of the headroom study: `A` to `F`, 10 Gbit/s each way.

    The 16 links are in the order of their numbers in figure 3.6a, 1 to 16.
    """

class NextHops:
    """By which edge packets leave each node for each other, in the lab and in the simulator.

    That is the way of the least delay, then of the fewest edges, then by the edge that stands
    first. `forwards` says of each node whether others' packets pass it; an edge is (number of the
    node where packets enter, where they leave, delay). `BadInput` for a node that is not there.
    """

    def __init__(
        self, forwards: Sequence[bool], edges: Sequence[tuple[int, int, Time]]
    ) -> None: ...
    def path(self, source: int, destination: int) -> list[int] | None:
        """The edges of a packet's way, in the order that it crosses them; None without a path."""

# --- schedule ---

class Reason:
    """Why a request was refused."""

    @property
    def kind(self) -> Literal["deadline", "rate_max", "link", "worth"]: ...
    @property
    def link(self) -> str | None: ...
    @property
    def needed(self) -> Rate | None: ...
    @property
    def available(self) -> Rate | None: ...

class Decision:
    """The answer to a request."""

    @property
    def accepted(self) -> bool: ...
    @property
    def waiting(self) -> bool:
        """It comes at an epoch, with `epoch_with_decisions`."""
    @property
    def rate(self) -> Rate | None: ...
    @property
    def size(self) -> Bytes | None:
        """What was promised: less than was asked for only where `least` was given."""
    @property
    def path(self) -> list[str]: ...
    @property
    def lanes(self) -> list[tuple[list[str], Rate]]:
        """The first rate on each path that it may take, in an order that never changes."""
    @property
    def changes(self) -> list[tuple[str, Rate]]: ...
    @property
    def reason(self) -> Reason | None: ...
    @property
    def earliest_deadline(self) -> Time | None:
        """A deadline with which this request would be accepted now; None if there is none."""

class CalendarFlow:
    """An admitted transfer as it stands at the time of the calendar's last call."""

    @property
    def id(self) -> str: ...
    @property
    def path(self) -> list[str]: ...
    @property
    def size(self) -> Bytes: ...
    @property
    def remaining(self) -> Bytes: ...
    @property
    def start(self) -> Time:
        """When it may be sent; zero with policies that start everything at once."""
    @property
    def deadline(self) -> Time: ...
    @property
    def rate(self) -> Rate: ...
    @property
    def split(self) -> list[tuple[list[str], Rate]]:
        """The rate on each of several paths; empty when all of it takes `path`."""
    @property
    def rate_min(self) -> Rate: ...
    @property
    def rate_max(self) -> Rate | None: ...
    @property
    def completion(self) -> Time:
        """When it ends at this rate, or by its plan if it does not send now."""
    @property
    def state(self) -> Literal["on_time", "finishing", "at_risk", "late"]: ...

class CalendarLink:
    """A link as it stands."""

    @property
    def name(self) -> str: ...
    @property
    def capacity(self) -> Rate: ...
    @property
    def allotted(self) -> Rate: ...
    @property
    def flows(self) -> int: ...

def calendar_policies() -> list[str]:
    """The names of the policies that a `Calendar` may have."""

class Calendar:
    """A bandwidth calendar; `now` is the caller's time and never goes back.

    With the policies "weir" and "weir-all", transfers may take up to `paths` paths; `start` may be
    ahead; `epoch` is due at `next_epoch`, which may be at any time, and other transfers' rates may
    be zero for a while. These two take neither modelled completions nor admission at the epoch.
    """

    def __init__(
        self,
        network_json: str,
        policy: str,
        epoch: Time,
        *,
        completions: str = "reported",
        admission: str = "on-arrival",
        reshape_key: str = "completion",
        paths: int = 1,
    ) -> None: ...
    def submit(
        self,
        now: Time,
        id: str,
        source: str,
        destination: str,
        size: Bytes,
        deadline: Time,
        rate_max: Rate | None = None,
        *,
        start: Time | None = None,
        least: Bytes | None = None,
        weight: int = 1,
        paths: int | None = None,
        hold: Time | None = None,
        offer: str | None = None,
        promised: bool = False,
    ) -> Decision:
        """Decides on a transfer.

        Args:
            now: the time of the call.
            id: its name from now on.
            source: the node where the data is.
            destination: the node where it must be.
            size: how much there is to move.
            deadline: when all of it must be there.
            rate_max: what the end points can do.
            start: when the data is there to be sent, if that is later; `BadInput` with a policy
                that only knows now.
            least: what is worth moving if not all of it can be promised.
            weight: how much it is worth against others.
            paths: over how many of the calendar's paths it may be sent, the shortest ones; all of
                them if not said.
            hold: how long the answer may wait, with a policy that plans ahead; it then comes with
                an epoch. Meanwhile the transfer has rates as if it had been admitted.
            offer: the name under which room was kept for it by `offer`. A request for no more than
                that is not refused; after any other the room is given up.
            promised: whether it was promised before and is only planned anew: it is then refused
                for lack of room alone.
        """
    def offer(
        self,
        now: Time,
        id: str,
        source: str,
        destination: str,
        size: Bytes,
        deadline: Time,
        rate_max: Rate | None = None,
        *,
        start: Time | None = None,
        weight: int = 1,
        paths: int | None = None,
    ) -> Time | None:
        """Keeps room for a refused request from `start` on, until it is asked for or cancelled.

        Says by which deadline, the earliest that can then be promised and none before `deadline`;
        None if there is none, or the policy keeps no room for what starts later.
        """
    def precheck(
        self,
        now: Time,
        id: str,
        source: str,
        destination: str,
        size: Bytes,
        deadline: Time,
        rate_max: Rate | None = None,
        *,
        start: Time | None = None,
        least: Bytes | None = None,
        weight: int = 1,
        paths: int | None = None,
        offer: str | None = None,
    ) -> Decision:
        """What `submit` would say, and the changes that it would bring others; changes nothing.

        With a policy that only knows now, `offer` is any transfer that is given up for it.
        """
    def earliest_by_links(
        self,
        source: str,
        destination: str,
        size: Bytes,
        rate_max: Rate | None = None,
        paths: int | None = None,
        *,
        offer: str | None = None,
    ) -> Time | None: ...
    def earliest_end(self, id: str) -> Time | None:
        """By when what is left of a transfer could be there beside all promised to others."""
    def set_capacity(
        self, now: Time, link: str, pieces: Sequence[tuple[Time, Time, Rate]], outside: Rate
    ) -> list[tuple[str, Rate]]:
        """Says what a link can carry from now on, in place of what was said before.

        Args:
            now: the time of the call.
            link: its name.
            pieces: from, to and the rate between, in any order; they do not overlap.
            outside: the rate at all other times.

        Returns:
            The new rates of those that are slowed down or may go on. Whose promise can no longer be
            kept is `at_risk`, and `earliest_end` says by when it could be there.
        """
    def narrow(self, now: Time, id: str, paths: int) -> list[tuple[str, Rate]]:
        """Has a transfer take no more than the first so many of its paths from now on.

        Returns:
            The new rates. If its promise can no longer be kept, it is `at_risk`.
        """
    def progress(self, now: Time, id: str, remaining: Bytes) -> list[tuple[str, Rate]]: ...
    def progress_all(
        self, now: Time, remaining: Sequence[tuple[str, Bytes]]
    ) -> list[tuple[str, Rate]]:
        """As `progress` of one after the other; the last rate that is told of each counts."""
    def complete(self, now: Time, id: str) -> list[tuple[str, Rate]]: ...
    def cancel(self, now: Time, id: str) -> list[tuple[str, Rate]]: ...
    def epoch(self, now: Time) -> list[tuple[str, Rate]]: ...
    def epoch_with_decisions(
        self, now: Time
    ) -> tuple[list[tuple[str, Rate]], list[tuple[str, Decision]]]: ...
    @property
    def next_epoch(self) -> Time: ...
    def advance(self, now: Time) -> list[tuple[str, Time]]: ...
    def flows(self) -> list[CalendarFlow]: ...
    def flow(self, id: str) -> CalendarFlow | None:
        """A transfer that is admitted, or waits for its answer."""
    def rates(self) -> list[tuple[str, Rate]]:
        """Every flow's, as `flows` has it, without the cost of all the rest."""
    def state(self, id: str) -> str | None:
        """That of a transfer, as `flow` has it, without the cost of all the rest."""
    def behind(self, ids: Sequence[str]) -> list[str]:
        """Those of them whose deadlines the plan does not keep: "at_risk", or "late"."""
    def lanes(self, id: str) -> list[tuple[list[str], Rate]]:
        """The rate on each path that a transfer may take, in an order that never changes."""
    def links(self) -> list[CalendarLink]: ...
    def snapshot(self) -> str:
        """The whole state as JSON; other threads go on meanwhile."""
    def copy(self) -> Calendar:
        """Another one with the same state."""
    @staticmethod
    def restore(text: str) -> Calendar: ...

# --- series ---

# Windows and series are bytes of little-endian doubles: `array.astype("<f8").tobytes()`. Samples
# that stand beside each other are at most `band` apart and add |x - y| ("absolute") or its square
# ("squared"). What is not finite or not of the windows' length is `BadInput`.

def dtw_matrix(windows: bytes, length: int, band: int, cost: str) -> bytes:
    """The distance by dynamic time warping between any two windows, row by row, as doubles."""

class DtwNeighbours:
    """Windows to find those of that are nearest to a series."""

    def __init__(self, windows: bytes, length: int, band: int, cost: str) -> None: ...
    def nearest(self, series: bytes, count: int) -> list[tuple[int, float]]:
        """Index and distance of the nearest windows; of equally near ones the first come first."""
    def lower_bounds(self, series: bytes) -> list[float]:
        """What the distance to each window cannot be below (LB_Keogh)."""

# --- deadline ---

class DeadlineSample:
    """What one run of one policy gave; means are over the flows on time."""

    @property
    def generated(self) -> int:
        """Flows that appeared."""
    @property
    def on_time(self) -> int:
        """Flows that ended by their deadline."""
    @property
    def on_time_share(self) -> float:
        """Application throughput: `on_time / generated`."""
    @property
    def optimum(self) -> int | None:
        """The most that could have been on time, where that is known: in a batch."""
    @property
    def completion_slots(self) -> float:
        """Mean time from arrival to end."""
    @property
    def last_end_slot(self) -> float:
        """End of the last flow on time; the mean over the instances of a batch."""
    @property
    def utilisation(self) -> float:
        """The share of the link's time that was used."""

def deadline_policies() -> list[str]:
    """The names of the policies."""

def deadline_serve(policy: str, flows: Sequence[tuple[int, int, int]]) -> list[int | None]:
    """The slot by which each flow ended on time, `None` if it did not.

    `flows` are (arrival slot, size in packets, deadline slot); a packet takes a slot. `BadInput`
    names the flow that cannot be.
    """

def deadline_figures(readings: str = "{}") -> str:
    """The 16 figures of work 002 as JSON.

    A list of `{"id", "title", "axis", "points": [[x, SETTING], ...]}`; a SETTING is what
    `deadline_run` takes. `readings` answers the open questions: any of "reading" ("cushion",
    "deadline", "redrawn", "at-least-size"), "probability" ("fixed", "tuned"), "horizon_slots",
    "slots", "instances", "generations".
    """

def deadline_run(setting: str, policy: str, seeds: Sequence[int]) -> list[DeadlineSample]:
    """One run per seed; policies with the same seed meet the same flows.

    `setting` is JSON: `{"workload": {"sizes": {"low", "high"}, "deadlines": {"exponential":
    {"mean_slots", "reading"}} or {"opposed": {"horizon_slots"}}}, "arrivals": {"batch": {"flows",
    "instances"}} or {"periodic": {"servers", "interval_slots", "generations"}} or {"closed-loop":
    {"servers", "probability", "slots"}}, "early_termination": "hopeless" or "late"}`.
    """

def deadline_fat_tree(tree: str, policy: str, seeds: Sequence[int]) -> list[DeadlineSample]:
    """One run per seed of "weir", "pdq" or "sjf" in a fat-tree; the flows depend on the seed alone.

    `tree` is JSON: `{"ports", "workload", "load", "slots"}`, the workload as for `deadline_run`,
    the load as a share of the capacity of the hosts' links. `utilisation` is what is delivered by
    all hosts, as a multiple of one link.
    """

def estimate(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half the 95 % confidence interval (Student's t) over independent runs."""

# --- fluid ---

class FluidOutcome:
    """What a fluid simulation found.

    The arrays hold one little-endian number of eight bytes for each flow, in the order of arrival:
    `numpy.frombuffer(outcome.end_ns, "<u8")`, or `memoryview(outcome.end_ns).cast("Q")`. Times not
    reached (a flow that did not end, no deadline) are 2^64 - 1; throughputs of flows that did not
    end are NaN. Shares of nothing are None.
    """

    @property
    def arrival_ns(self) -> bytes: ...
    @property
    def end_ns(self) -> bytes: ...
    @property
    def deadline_ns(self) -> bytes: ...
    @property
    def size_bytes(self) -> bytes: ...
    @property
    def throughput_bps(self) -> bytes:
        """Size over completion time, as doubles."""

    @property
    def utilisation(self) -> list[tuple[str, float]]:
        """Exact time average of rate over capacity, for each link in the network's order."""

    @property
    def mean_throughput_bps(self) -> float | None: ...
    @property
    def mean_completion_s(self) -> float | None: ...
    @property
    def on_time_share(self) -> float | None: ...
    @property
    def reject_rate(self) -> float | None: ...
    @property
    def mean_utilisation(self) -> float | None: ...
    @property
    def jain_index(self) -> float | None: ...
    @property
    def makespan(self) -> Time | None: ...
    @property
    def end(self) -> Time: ...
    def __len__(self) -> int: ...

def simulate_study(study_json: str) -> FluidOutcome:
    """Runs a random workload; `docs/fluid.md` gives the form of a study.

    Raises `BadInput` that names the place.
    """

def simulate_trace(
    trace: str,
    *,
    sharing: Literal["max-min", "equal-split", "priority"] = "max-min",
    priorities: int = 1,
    until: Time | None = None,
) -> FluidOutcome:
    """Runs the flows of a trace; `docs/fluid.md` gives its form.

    Raises `BadInput` that names the line.
    """

# --- calendar study ---

class CalendarBooking:
    """A request of a study; times in ns from the study's origin."""

    @property
    def arrival_ns(self) -> int: ...
    @property
    def start_ns(self) -> int: ...
    @property
    def deadline_ns(self) -> int: ...
    @property
    def source(self) -> str: ...
    @property
    def destination(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def on_time(self) -> bool:
        """Over by its deadline, or promised to be."""
    @property
    def delivered_bytes(self) -> int:
        """What was there by its deadline, or is promised to be."""

class CalendarFigures:
    """What one run of one policy gave."""

    @property
    def requests(self) -> int: ...
    @property
    def reject_rate(self) -> float:
        """The share that was refused, or given up at its deadline."""

    @property
    def success(self) -> float:
        """The share that is on time."""

    @property
    def utilisation(self) -> float:
        """Mean over the links of the exact time average, up to the last request."""

    @property
    def index(self) -> float:
        """Success over 1 - utilisation (000-spec 4.6)."""

    @property
    def bytes_on_time_share(self) -> float: ...
    @property
    def bytes_delivered_share(self) -> float:
        """The same with the parts of transfers that were given up at their deadline."""

    @property
    def missed(self) -> int:
        """Requests that were not refused and missed their deadline."""

    @property
    def changes_per_request(self) -> float:
        """Rates told to flows that were there before."""

    @property
    def bookings(self) -> list[CalendarBooking]:
        """Every request, by arrival."""

def calendar_study_policies() -> list[str]:
    """The names of the policies that a study can run; `docs/policies.md` says what they are."""

def calendar_study(study_json: str) -> CalendarFigures:
    """Runs one policy on one workload.

    `study_json` is `{"network", "policy", "epoch_s", "clock": "true" | "published", "workload"}`;
    network and workload are those of `simulate_study`, and each request needs a deadline.

    Raises `BadInput` that names the place.
    """

# --- headroom ---

class HeadroomExpectation:
    """What one link's headroom gives to elephant flows in the long run."""

    @property
    def utilisation(self) -> float: ...
    @property
    def flows(self) -> float:
        """The mean number under way."""
    @property
    def throughput_bps(self) -> float: ...

class HeadroomSample:
    """What one run of a headroom study found; lists in the order of `links`."""

    @property
    def flows(self) -> int: ...
    @property
    def mean_throughput_bps(self) -> float | None:
        """Mean over the flows that ended of size over completion time."""
    @property
    def total_throughput_bps(self) -> float | None:
        """What they sent over the sum of their completion times."""
    @property
    def mean_completion_s(self) -> float | None: ...
    @property
    def detoured_share(self) -> float:
        """Share of the flows that did not take the default path."""
    @property
    def links(self) -> list[str]: ...
    @property
    def utilisation(self) -> list[float]:
        """Exact time average of rate over capacity."""
    @property
    def occupancy(self) -> list[float]:
        """Share of seconds at whose end a flow was on the link (000-spec equation 3.5)."""

class HeadroomProvider:
    """A provider's controller: it knows the elephant flows on each link, and decides on paths.

    The very decision that `simulate_headroom` runs. Equal calls and an equal seed give equal paths.
    """

    def __init__(self, network_json: str, service_json: str = "{}", *, seed: int = 1) -> None:
        """The network of `Calendar`, with no flow yet, and a service of `docs/headroom.md`.

        Raises `BadInput` that names the place.
        """
    def start(
        self,
        flow: int,
        ingress: str,
        egress: str,
        *,
        rate_max: Rate | None = None,
        size: Bytes | None = None,
    ) -> list[str]:
        """The links that a flow takes which starts now; what it announced may be left out.

        Raises `BadInput`: it is under way already, may not send, or its ends have no path.
        """
    def end(self, flow: int) -> None:
        """A flow is over; `BadInput` if it was not under way."""

def headroom_expectation(
    arrivals_per_s: float,
    shape: float,
    minimum: Bytes,
    headroom: Rate,
    *,
    processor_sharing: bool = False,
) -> HeadroomExpectation:
    """The M/G/1 model of 000-spec section 3.5: Poisson arrivals, Pareto sizes.

    Raises `BadInput` for parameters out of their range, a tail too heavy for the model (`shape` at
    most 2, or 1 with `processor_sharing`), and more traffic than the headroom carries.
    """

def simulate_headroom(study_json: str) -> HeadroomSample:
    """Runs elephant flows under a headroom service; `docs/headroom.md` gives the form of a study.

    Raises `BadInput` that names the place.
    """

def default_paths(network_json: str) -> list[tuple[str, int]]:
    """For each link, the number of ordered pairs of nodes whose default path crosses it."""

# --- migration ---

class MigrationProblem:
    """Machines to be migrated over a network, checked; plans are JSON.

    The network is that of `Calendar`. The problem is `{"step_ns": n, "half_duplex": [[LINK,
    LINK], …], "vms": [{"name", "source", "destination", "size_bytes": n, "cost": [n, …],
    "growth_bytes": [n, …], "path": [LINK, …]}]}`. A plan is `[{"path": [LINK, …], "finish": step,
    "pieces": [[first step, last step, bytes a step], …]}]`, an entry for every machine.
    """

    def __init__(self, network_json: str, problem_json: str) -> None:
        """Checks everything; `BadInput` names the item."""
    def routes(self) -> list[list[list[str]]]: ...
    def pools(self) -> list[list[list[int]]]: ...
    def capacities(self) -> list[int]: ...
    def earliest(self) -> list[int]: ...
    def greedy(self, random_paths: int | None = None) -> str: ...
    def fair_sharing(self, random_paths: int | None = None) -> str: ...
    def check(self, plan_json: str, slack: int) -> None: ...
    def measure(self, plan_json: str) -> tuple[int, int]: ...

class MigrationSearch:
    """Weir's own planner under way; the same calls give the same plan."""

    def __init__(self, problem: MigrationProblem, seed: int) -> None: ...
    def improve(self, moves: int) -> None: ...
    def tighten(self, steps: int) -> None: ...
    def offer(self, plan_json: str) -> None:
        """Takes a plan found elsewhere if it is better; `BadInput` if it does not hold."""
    def windows(self, longest: int) -> list[list[tuple[int, int] | None]]: ...
    def plan(self) -> str: ...
    @property
    def degradation(self) -> int: ...
    @property
    def bound(self) -> int: ...

# --- table ---

class ParquetTable:
    """A Parquet file that grows row by row; `close` makes it whole.

    `columns` are pairs of a name and a kind: "count" (whole numbers), "real" or "text". Every
    value may be None. `BadInput` when the file cannot be written, or for another kind.
    """

    def __init__(self, path: str | PathLike[str], columns: Sequence[tuple[str, str]]) -> None: ...
    def append(self, row: Sequence[int | float | str | None]) -> None:
        """Adds a row, a value for each column; `BadInput` or `TypeError` if it is not."""
    def close(self) -> None:
        """Writes what is left; does nothing the second time."""

# --- transfer ---

class Transfer:
    """One transfer, carried out by its own threads."""

    @staticmethod
    def send(
        sources: Sequence[str | PathLike[str]],
        destination: bytes,
        choices: Mapping[str, Any],
    ) -> Transfer: ...
    @staticmethod
    def get(
        sources: Sequence[bytes],
        destination: str | PathLike[str],
        choices: Mapping[str, Any],
    ) -> Transfer: ...
    def start(self) -> None: ...
    def set_rate(self, rate: Rate | None) -> None: ...
    def set_routes(self, each: Sequence[tuple[int, Rate | None]]) -> None: ...
    def set_spare_rate(self, rate: Rate | None) -> None: ...
    def set_congestion(self, name: str) -> None: ...
    def set_streams(self, streams: int) -> None: ...
    def renew_streams(self) -> None: ...
    def can_join(self) -> bool: ...
    def set_unsent_max(self, bytes: int | None) -> None: ...
    def progress(self) -> tuple[int, int, int, int, int, int, int, int, int, bool, str]: ...
    def hosts(self) -> list[tuple[str, int, float | None, str]]: ...
    def error(self) -> Exception | None: ...
    def wait(self, timeout: Time | None) -> bool: ...
    def cancel(self) -> None: ...
    def ports(self) -> list[tuple[str, int, str, int]]: ...
    def tcp_info(self) -> list[bytes]: ...
    def congestion(self) -> str | None: ...
    def count_only(self) -> None: ...
    def take_settled(self) -> list[tuple[bytes, int, str | None, bool]]: ...
    def take_failures(self) -> list[tuple[bytes | None, str]]: ...
    def take_notices(self) -> list[str]: ...

class Server:
    """A running server; it stops when collected."""

    def __init__(
        self,
        listen: str,
        exports: Sequence[tuple[str, str | PathLike[str], bool]],
        choices: Mapping[str, Any],
        log: Callable[[str, dict[str, Any]], None],
    ) -> None: ...
    def address(self) -> tuple[str, int]: ...
    def ports(self) -> list[int]: ...
    def stop(self) -> None: ...

class Catalogue:
    single: bool
    files: int
    size_bytes: int
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[bytes, str, int, bytes]: ...

def keys_show(directory: str | PathLike[str]) -> list[tuple[str, str, str, int]]: ...
def keys_revoke(directory: str | PathLike[str], holder: str) -> None: ...
def catalogue(
    place: bytes,
    follow_links: bool,
    silence: Time | None = None,
    keys: str | PathLike[str] | None = None,
) -> Catalogue | None: ...
def keys_init(directory: str | PathLike[str]) -> None: ...
def keys_issue(
    authority: str | PathLike[str],
    target: str | PathLike[str],
    name: str,
    server: bool,
) -> None: ...
