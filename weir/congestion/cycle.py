"""The cycle of OPS beside a transfer: probe, recognise, choose, send on (001-spec 6.4).

    probing --samples--> recognising --who--> choosing --control--> steady
       ^                                                              |
       +------- Y is over, or the kernel's counters changed ----------+
                                             ^                        |
                                             +-- others are heard,  --+
                                                 or the file is late

A transfer that is free to begin does so at once. While its connections are made the path is silent
anyway, and where that silence shows that nobody else is there (`weir.congestion.opening`) no other
is needed. What the path itself does to packets shows while it sends (`weir.congestion.path`): where
nobody else is and the control leaves some of the path unused, another takes its place, or more
streams do where the host offers none.

Probing is passive, and the transfer silent meanwhile, so that the background shows its own
signature; or active, and the transfer's own bytes go out in a pattern of bursts. Its connections
stay, and change their congestion control in place. While it sends on, a prober listens, and who is
heard then takes the place of silence (`weir.congestion.monitor`). Whatever goes wrong with probing
or recognising, the transfer goes on with the control that it has, and that is told.
"""

import contextlib
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Any, Protocol, TextIO

from weir import kernel_controls
from weir._core import Rate
from weir.congestion.change import EARLIEST_S, ChangeDetector
from weir.congestion.choice import FAIRNESS, Choice, Interaction, Wanted, choose
from weir.congestion.choice.decide import IDLE, Recognised, one_level_tree
from weir.congestion.choice.response import streams_to_fill
from weir.congestion.classify.beside import OWN
from weir.congestion.demand import Demand, Trend
from weir.congestion.event_log import EventLog
from weir.congestion.monitor import Ear, Listener
from weir.congestion.opening import RATE_HZ, SILENT_LEAST, Nobody, Opening
from weir.congestion.options import LARGE_BYTES, PASSIVE, RULES, Rule
from weir.congestion.path import PathReader, PathState, path_words
from weir.errors import BadInput, Unavailable, WeirError
from weir.format import mbit_s
from weir.probe.active import TurnReport
from weir.probe.carrier import require_congestion
from weir.probe.connections import Connections
from weir.probe.constructive import TransferCarrier
from weir.probe.echo import Echo, Target, echo_to
from weir.probe.pattern import Pattern
from weir.probe.probe import Active, Probe
from weir.probe.sample import Sample
from weir.probe.sampling import Plan
from weir.probe.summary import turn_facts
from weir.transfer import PAUSED, Transfer
from weir.transfer.watch import ThreadedCompanion

_logger = logging.getLogger(__name__)

SURE = 0.97
"""When BBR is there, or not there, with this probability, the path is probed no longer."""
PROBE_MAX_S = 10.0
"""Then it is decided with the doubt that is left."""
_LOOK_S = 0.25
_DRAIN_S = 5.0  # for what was on its way when the transfer fell silent
_LEAST_STEADY_S = EARLIEST_S  # doubled each time that probing again changed nothing
_MISTAKE_S = 20.0  # a control that is taken again so soon was left by mistake
_PATIENCE_MAX = 8
LISTENING, DEADLINE, SENDING = "listening", "deadline", "sending"
_LOOKS_EVERY = 5  # samples of the opening: the kernel's counters are read 20 times a second
_GRACE_S = 1.0  # so long it sends before a silence
_READ_S = 0.05  # between two looks at the path where no prober sets the pace
_MORE = 4  # times as many streams, where some of the path is unused
_SEVERAL_S = 60.0  # several streams would not notice one more: after so long it is listened for
_ENDING_S = 5.0  # with less than this to go nobody falls silent
_NOBODY = 0.5  # as likely as this it is that nobody else is there, where room on the path counts


class Recogniser(Protocol):
    """What tells a background from samples.

    Attributes:
        rate_hz: of the samples that it wants.
        requests: of each.
        seconds: lengths of time from which it can tell, ascending.
    """

    @property
    def rate_hz(self) -> float: ...  # noqa: D102 - see above
    @property
    def requests(self) -> int: ...  # noqa: D102 - see above
    @property
    def seconds(self) -> Sequence[float]: ...  # noqa: D102 - see above

    def recognise(self, samples: Sequence[Sample]) -> Recognised:
        """Who is on the path."""


@dataclass(frozen=True)
class Settings:
    """How a transfer selects.

    Attributes:
        fairness: see `weir.congestion.choice.Wanted`.
        steady_s: how long a choice stands before the path is probed again: None until the kernel's
            counters change, 0 for ever.
        rate: the transfer's pace outside probing, at first; None is unpaced.
        deadline: of the transfer, None without one.
        udp: port of a responder that the path is probed by; None for ICMP.
        interaction: what the controls do; None for the shipped table.
        pattern: of active probing, such as C5-B5-C5-S5; None for passive. It is read when the path
            is to be probed: a wrong one is told, and the transfer goes on.
        rule: how a control is chosen: by its worth beside what was recognised (`choose`), or by the
            work's tree (`one_level_tree`).
        fallback: what the transfer was made with, kept in doubt; None is the host's default.
        reads_path: whether what the path does to packets counts. Only of one stream that is not
            paced, without `steady_s` and `pattern`.
        host: the other end, by name: what `reads_path` allows begins to send at once, and learns
            meanwhile. None probes before the first byte, and the transfer is made `PAUSED`.
        log: gets what happens, a JSON object a line.
        label: on each line of the log, to tell runs apart; empty for none.
    """

    fairness: float = FAIRNESS
    steady_s: float | None = None
    rate: Rate | None = None
    deadline: datetime | None = None
    udp: int | None = None
    interaction: Interaction | None = None
    pattern: str | None = None
    rule: Rule = "worth"
    fallback: str | None = None
    reads_path: bool = False
    host: str | None = None
    log: TextIO | None = None
    label: str = ""

    def __post_init__(self) -> None:
        """Checks what the choice would stumble over later."""
        Wanted(fairness=self.fairness)
        if self.rule not in RULES:
            raise BadInput(f"rule {self.rule}: there are {' and '.join(RULES)}")


@dataclass(frozen=True, slots=True)
class _Found:
    """What a probing found, or listening, and what is to be done about it.

    Attributes:
        recognised: who is on the path.
        choice: the control for it.
        samples: all of them.
        seconds: how long it took.
        turns: of the pattern, empty in passive probing.
        how: passive, a pattern, listening, sending: the kernel's counters tell, or deadline: as
            before, and the file would be late.
        streams: how many are to be used.
    """

    recognised: Recognised
    choice: Choice
    samples: Sequence[Sample]
    seconds: float
    turns: Sequence[TurnReport] = ()
    how: str = PASSIVE
    streams: int = 1

    @property
    def words(self) -> str:
        """How, and how long."""
        what = {LISTENING: LISTENING, DEADLINE: SENDING, SENDING: SENDING}.get(self.how, "probing")
        return f"{self.seconds:g} s of {what}"


def decide(
    rule: Rule,
    recognised: Recognised,
    current: str,
    wanted: Wanted,
    interaction: Interaction | None = None,
    path: PathState | None = None,
) -> Choice:
    """The control for this host's connections, by either rule; see `choose` for the rest.

    Raises:
        Unsupported: the work's tree wants one that this host does not offer.
    """
    if rule == "tree" and recognised.known:
        choice = one_level_tree(recognised)
        require_congestion([choice.control])
        return choice
    return choose(recognised, kernel_controls.offered(), current, wanted, interaction, path)


class Selection(ThreadedCompanion):
    """Selects a transfer's congestion control while it runs; the choice that stands remains.

    Args:
        transfer: made `PAUSED`, so that it is silent until the path is probed; see `Settings.host`.
        recogniser: makes the recogniser, which may take a moment.
        settings: how to select.
    """

    def __init__(
        self, transfer: Transfer, recogniser: Callable[[], Recogniser], settings: Settings
    ) -> None:
        super().__init__("weir-selection")
        self._transfer = transfer
        self._connections = Connections(transfer)
        self._make_recogniser = recogniser
        self._settings = settings
        self._event_log = EventLog(self._add_news, settings.log, settings.label)
        self._demand = Demand(settings.deadline)
        self._pattern: Pattern | None = None
        self._pace = settings.rate
        self._path = PathReader()
        self._opening: Opening | None = None  # of a path on which nobody showed
        self._streams = 1  # of what this chooses; where `reads_path` does not hold it leaves them
        self._is_advised = False
        self._pacing = threading.Lock()
        self._is_held = True  # the pace waits for the end of a probing
        self._control = settings.fallback or kernel_controls.default()
        self._expected_own = 0.0  # share of the path's rate under the control in use
        self._patience: dict[str, int] = {}  # before a control is left for what is heard
        self._left: tuple[str, float] | None = None  # for what was heard: which, and when

    @property
    def control(self) -> str:
        """The congestion control in use."""
        return self._control

    @property
    def status(self) -> str:
        """What it is at, or the control in use."""
        return "probing the path" if self._is_held else self._control

    def set_rate(self, rate: Rate | None) -> None:
        """The transfer's pace from now on, or from the end of the probing that is going on.

        Args:
            rate: None is unpaced.
        """
        with self._pacing:
            self._pace = rate
            if not self._is_held:
                self._transfer.set_rate(rate)

    def _hold_pace(self) -> None:
        with self._pacing:
            self._is_held = True

    def _release_pace(self) -> None:
        with self._pacing:
            self._is_held = False
            self._transfer.set_rate(self._pace)

    def _run(self) -> None:
        settings = self._settings
        try:
            opened = self._open(settings.host) if settings.host is not None else None
            if self._is_over():
                return
            if settings.pattern is not None:
                self._pattern = Pattern.parse(settings.pattern)
                require_congestion(self._pattern.congestions)
            recogniser = self._make_recogniser()
            if target := self._target():
                self._cycle(recogniser, target, opened)
        except WeirError as error:
            self._go_on(str(error))
        except Exception as error:
            # A fault of ours is no reason for the file to be late.
            _logger.exception("the choice of a congestion control failed")
            self._go_on(f"{type(error).__name__}: {error}")
        finally:
            self._release_pace()

    def _target(self) -> Target | None:
        """The host at the other end of the connection, once there is one; None if it never is."""
        while not self._is_over():
            # A connection has its host's default, or what its route says.
            if (ports := self._transfer.ports()) and (own := self._transfer.congestion()):
                self._control = own
                return Target.resolve(ports[0][2])
            self._stop.wait(_LOOK_S / 5)
        return None

    def _go_on(self, reason: str) -> None:
        """With the control in use, which a burst of active probing may have replaced."""
        if self._is_over():
            return
        if self._pattern:
            # It was in use before: what speaks against it now ends the transfer, too.
            with contextlib.suppress(WeirError):
                self._transfer.set_congestion(self._control)
        words = f"{reason}; the transfer goes on with {self._control}"
        self._event_log.tell("fallback", words, reason=reason, control=self._control)

    def _open(self, host: str) -> Recognised | None:
        """Sends at once, and chooses where nobody else is; None where silence has to tell.

        A transfer that was made paused sends as soon as it is connected and nobody is heard.
        """
        plan = Plan(rate_hz=Fraction(RATE_HZ), requests=1, seconds=None)
        opening = Opening()
        # What goes wrong here does so again when the path is probed, and is told then.
        with contextlib.suppress(WeirError):
            target = Target.resolve(host)
            with Probe(target, self._echo(target), plan) as probe:
                return self._learn(opening, probe)
        return None

    def _learn(self, opening: Opening, probe: Iterable[Sample]) -> Recognised | None:
        """Who is there, from samples that begin before the first byte."""
        begin_s: float | None = None
        seen: list[Sample] = []
        for sample in probe:
            if self._is_over():
                return None
            seen.append(sample)
            if begin_s is None:
                if not self._transfer.tcp_info():
                    opening.hears_silence(sample)
                    continue
                is_quiet = self._was_quiet(opening, probe)
                begin_s = time.monotonic()
                if not is_quiet:
                    self._wait_for_small(begin_s)
                    return None
                self._release_pace()
            if opening.shows_others([sample]):
                return None
            if len(seen) % _LOOKS_EVERY:
                continue
            self._path.sees(time.monotonic(), self._connections.look())
            path, seconds = self._path.state, time.monotonic() - begin_s
            if path and path.use == "shared":
                return None
            if who := opening.finds_nobody(seconds, path):
                self._opening = opening
                self._control = self._transfer.congestion() or self._control
                choice = self._choose(who)
                choice = replace(choice, why=f"{who.why}: {choice.control}, 1 stream")
                self._use(_Found(who, choice, seen, round(seconds, 1), how=SENDING))
                return who
        return None

    def _was_quiet(self, opening: Opening, probe: Iterable[Sample]) -> bool:
        """Whether the silence before the first byte was; a short one is made a little longer."""
        missing = SILENT_LEAST - opening.silent
        if missing > 0 and not self._is_small():
            self._fall_silent()
            for sample in itertools.islice(probe, missing + 1):
                opening.hears_silence(sample)
        return opening.was_quiet

    def _wait_for_small(self, begin_s: float) -> None:
        """Before a silence: what is small may be over first."""
        if self._is_small():
            self._release_pace()
        while self._is_small() and time.monotonic() < begin_s + _GRACE_S and not self._is_over():
            self._stop.wait(_READ_S)

    def _is_small(self) -> bool:
        return self._transfer.remaining.count < LARGE_BYTES

    def _cycle(
        self, recogniser: Recogniser, target: Target, opened: Recognised | None = None
    ) -> None:
        least_s = _LEAST_STEADY_S
        chosen: str | None = None
        heard: _Found | None = None
        if opened:
            chosen, known = self._control, opened
            heard = self._steady(recogniser, target, known, least_s)
        while not self._is_over():
            try:
                found = heard or self._probe(recogniser, target)
            except Unavailable as error:
                if chosen is None:
                    raise
                # The path answered before: what is known of it stands until it answers again.
                self._go_on(str(error))
                self._release_pace()
                least_s *= 2
            else:
                if found is None:
                    return
                before, now = (chosen, self._streams), (found.choice.control, found.streams)
                self._use(found)
                least_s = 2 * least_s if now == before else _LEAST_STEADY_S
                chosen, known = self._control, found.recognised
            heard = self._steady(recogniser, target, known, least_s)

    def _probe(self, recogniser: Recogniser, target: Target) -> _Found | None:
        """Samples for as long as it takes to be sure; None if the transfer was over before."""
        self._hold_pace()
        # Beside others it tells something else.
        self._opening, self._path = None, PathReader()
        often, silence = self._listens_for_quiet(recogniser)
        lengths = [often * length for length in looks(recogniser)]
        rate_hz = often * Fraction(recogniser.rate_hz)
        plan = Plan(
            rate_hz=rate_hz, requests=recogniser.requests, seconds=Fraction(lengths[-1]) / rate_hz
        )
        samples: list[Sample] = []
        recognised: Recognised | None = None
        with contextlib.ExitStack() as stack:
            active = self._begin(stack)
            probe = stack.enter_context(Probe(target, self._echo(target), plan, active))
            for sample in probe:
                samples.append(sample)
                if self._is_over():
                    return None
                if silence and self._is_quiet(silence, sample):
                    recognised, self._opening = Nobody("the path was quiet"), silence
                    break
                if len(samples) in lengths and any(sample.replies_ns for sample in samples):
                    recognised = recogniser.recognise(samples)
                    if is_sure(recognised):
                        break
                if recognised and len(samples) == lengths[-1]:
                    break  # what a last burst left on its way is not waited for
        if recognised is None:
            return None
        seconds = float(len(samples) / rate_hz)
        how = str(self._pattern) if self._pattern else PASSIVE
        return _Found(recognised, self._choose(recognised), samples, seconds, probe.turns, how)

    def _listens_for_quiet(self, recogniser: Recogniser) -> tuple[int, Opening | None]:
        """How many times as often as the recogniser wants samples it is listened, to hear quiet."""
        often, rest = divmod(RATE_HZ, recogniser.rate_hz)
        if self._settings.host is None or rest or not often:
            return 1, None
        return int(often), Opening()

    def _is_quiet(self, silence: Opening, sample: Sample) -> bool:
        silence.hears_silence(sample)
        return not sample.index % _LOOKS_EVERY and silence.is_quiet

    def _begin(self, stack: contextlib.ExitStack) -> Active | None:
        """Falls silent; or lets a pattern drive the transfer."""
        if self._pattern is None:
            self._fall_silent()
            return None
        carrier = TransferCarrier(self._transfer, self._pace)
        return Active(self._pattern, stack.enter_context(carrier))

    def _fall_silent(self) -> None:
        """Waits until nothing of the transfer is on its way, or for as long as is worth it."""
        self._transfer.set_rate(PAUSED)
        end_s = time.monotonic() + _DRAIN_S
        while time.monotonic() < end_s and not self._stop.wait(_LOOK_S / 5):
            connections = self._connections.look()
            if not any(info.in_flight_packets or info.unsent_bytes for info in connections):
                return

    def _choose(self, recognised: Recognised) -> Choice:
        settings = self._settings
        share = self._demand.share(self._transfer.remaining.count, self._pace)
        wanted = Wanted(fairness=settings.fairness, share=share)
        path = self._path.state if settings.reads_path else None
        return decide(settings.rule, recognised, self._control, wanted, settings.interaction, path)

    def _use(self, found: _Found) -> None:
        choice, recognised = found.choice, found.recognised
        self._transfer.set_congestion(choice.control)
        self._control = choice.control
        if found.streams != self._streams:
            self._transfer.set_streams(found.streams)
            self._streams = found.streams
        own = choice.expected.get(choice.control)
        self._expected_own = own.own if own else 0.0
        self._release_pace()
        self._event_log.tell(
            "choice",
            f"{choice.control} after {found.words}: {choice.why}",
            control=choice.control,
            why=choice.why,
            probe=found.how,
            probed_s=found.seconds,
            probabilities=_rounded(recognised.probabilities),
            bbr=round(recognised.bbr, 4),
            known=recognised.known,
            expected={
                control: _rounded({"of_fair": e.of_fair, "jain": e.jain, "worth": e.worth})
                for control, e in choice.expected.items()
            },
            streams=found.streams,
            rtt_ms=_rtt_range(found.samples),
            **_path_facts(self._path.state),
            next_offset=self._transfer.progress().bytes_durable.count,
            **({"turns": [turn_facts(turn) for turn in found.turns]} if found.turns else {}),
        )

    def _steady(
        self, recogniser: Recogniser, target: Target, known: Recognised, least_s: float
    ) -> _Found | None:
        """Sends on until the path is to be probed again, or until that is not needed to choose.

        Args:
            recogniser: also listens, if it can.
            target: the other host.
            known: who is on the path, as far as is known.
            least_s: for how long, whatever the kernel's counters say.
        """
        begin_s = time.monotonic()
        self._connections.look()
        acked = self._connections.acked_bytes
        listener = self._listener(recogniser)
        with contextlib.closing(self._beats(recogniser if listener else None, target)) as beats:
            found = self._await(beats, listener, known, least_s)
        seconds = time.monotonic() - begin_s
        self._connections.look()
        goodput_bps = 8 * (self._connections.acked_bytes - acked) / max(seconds, 1e-3)
        if seconds > 1:
            self._demand.learn(goodput_bps, self._expected_own, self._pace)
        self._event_log.note(
            "steady",
            control=self._control,
            seconds=round(seconds, 3),
            goodput_bps=round(goodput_bps),
            next_offset=self._transfer.progress().bytes_durable.count,
        )
        return found

    def _await(
        self,
        beats: Iterable[Sample | None],
        listener: Listener | None,
        known: Recognised,
        least_s: float,
    ) -> _Found | None:
        """What `_steady` does, by the beats of its clock."""
        steady_s = self._settings.steady_s
        changes, changed = ChangeDetector(), None
        trend = Trend() if self._settings.deadline else None
        begin_s, look_s = time.monotonic(), _LOOK_S
        for sample in beats:
            seconds = time.monotonic() - begin_s
            if self._is_over() or (steady_s is not None and 0 < steady_s <= seconds):
                return None
            if listener and sample and (heard := listener.hears(sample)):
                choice = self._choose(heard)
                if choice.control != self._control:
                    self._leave(begin_s + seconds)
                    shown, took_s = listener.samples, round(seconds, 1)
                    return _Found(heard, choice, shown, took_s, how=LISTENING)
                listener.forget()
            if steady_s is None and (found := self._finds_room(known, seconds)):
                return found
            if what := self._doubts(sample, seconds):
                self._event_log.tell("change", f"{what}: the path is probed", what=what)
                return None
            if seconds < look_s:
                continue
            look_s = seconds + _LOOK_S
            connections = self._connections.look()
            acked = self._connections.acked_bytes
            if trend and (goodput_bps := trend.sees(seconds, acked)):
                choice = self._in_time(known, goodput_bps)
                if choice.control != self._control:
                    took_s, streams = round(seconds, 1), self._streams
                    return _Found(known, choice, (), took_s, how=DEADLINE, streams=streams)
            if steady_s is not None:
                continue
            # What is seen before its time is kept for it.
            changed = changed or changes.sees(seconds, connections)
            if changed and listener and listener.stands:
                changes, changed = ChangeDetector(), None
            if changed and seconds >= least_s:
                words = f"{changed}: the path is probed again"
                self._event_log.tell("change", words, what=changed)
                return None
        return None

    def _doubts(self, sample: Sample | None, seconds: float) -> str | None:
        """What speaks against being alone where nobody was, after so long without a doubt."""
        if self._opening and sample and self._opening.shows_others([sample]):
            return "the round-trip time is less than before the first byte"
        path = self._path.state
        if self._streams == 1 or path is None:
            return None
        if 8 * self._transfer.remaining.count < _ENDING_S * path.goodput_bps:
            return None  # it is over before silence would tell, and its end looks like others
        if path.use == "shared":
            return "a queue stands that is not ours"
        return f"{self._streams} streams would not notice others" if seconds > _SEVERAL_S else None

    def _finds_room(self, known: Recognised, seconds: float) -> _Found | None:
        """Another control, where nobody is and the one in use leaves some of the path unused."""
        if not self._settings.reads_path or not _is_nobody(known):
            return None
        connections = self._connections.look()
        self._path.sees(time.monotonic(), connections)
        path = self._path.state
        if path is None or path.use != "room" or len(connections) < self._streams:
            return None
        choice = self._choose(known)
        streams = 1
        if choice.control == self._control:
            streams = self._more_streams(path)
            if streams == self._streams:
                self._advise(path)
                return None
        words = f"{streams} streams" if streams > 1 else "1 stream"
        choice = replace(choice, why=f"{path_words(path)}: {choice.control}, {words}")
        return _Found(known, choice, (), round(seconds, 1), how=SENDING, streams=streams)

    def _more_streams(self, path: PathState) -> int:
        """How many may use what one control leaves unused; as many as now where none can join."""
        if not self._transfer.can_join:
            return self._streams
        most = streams_to_fill(self._control, path)
        return max(self._streams, min(most, _MORE * self._streams))

    def _advise(self, path: PathState) -> None:
        """Says once what would get more where the host offers no control that fills the path."""
        count = streams_to_fill(self._control, path)
        if count > self._streams and not self._is_advised:
            self._is_advised = True
            words = f"{path_words(path)}: --streams {count} would get more than one {self._control}"
            self._event_log.tell("advice", words, streams=count)

    def _in_time(self, known: Recognised, goodput_bps: float) -> Choice:
        """The control for the same background, now that it shows whether the file will be late."""
        self._demand.learn(goodput_bps, self._expected_own, self._pace)
        choice = self._choose(known)
        if choice.control != self._control:
            needed_bps = self._demand.bps(self._transfer.remaining.count, self._pace)
            words = (
                f"{self._control} gets {mbit_s(goodput_bps)}; the deadline takes "
                f"{mbit_s(needed_bps)}"
            )
            facts = {"goodput_bps": round(goodput_bps), "needed_bps": round(needed_bps)}
            self._event_log.tell("deadline", words, control=self._control, **facts)
        return choice

    def _leave(self, at_s: float) -> None:
        """The control in use is left for what is heard.

        If the one before it was left by mistake, that takes twice the patience the next time.
        """
        if self._left:
            control, left_s = self._left
            if at_s - left_s < _MISTAKE_S:
                patience = self._patience.get(control, 1)
                self._patience[control] = min(2 * patience, _PATIENCE_MAX)
        self._left = self._control, at_s

    def _listener(self, recogniser: Recogniser) -> Listener | None:
        """None where the samples of a prober would tell nothing."""
        is_wanted = self._settings.steady_s is None and self._settings.pattern is None
        if not (is_wanted and self._is_alone() and self._control in OWN):
            return None
        if not isinstance(recogniser, Ear):
            return None
        return Listener(recogniser, self._control, self._patience.get(self._control, 1))

    def _is_alone(self) -> bool:
        """Whether there is one stream, which sends all it can: no other can be taken out."""
        while not (connections := self._connections.look()) and not self._is_over():
            self._stop.wait(_LOOK_S / 5)
        return self._pace is None and len(connections) == 1

    def _beats(self, listens: Recogniser | None, target: Target) -> Generator[Sample | None]:
        """Samples of the path for who listens to them; else nothing, every now and then."""
        if listens:
            plan = Plan(rate_hz=Fraction(listens.rate_hz), requests=listens.requests, seconds=None)
            with (
                contextlib.suppress(Unavailable),
                Probe(target, self._echo(target), plan) as probe,
            ):
                yield from probe
        while not self._stop.wait(_READ_S if self._settings.reads_path else _LOOK_S):
            yield None

    def _echo(self, target: Target) -> Echo:
        return echo_to(target, self._settings.udp)

    def _is_over(self) -> bool:
        return self._stop.is_set() or self._transfer.is_over


def is_sure(recognised: Recognised) -> bool:
    """Whether to probe no longer."""
    return recognised.known and max(recognised.bbr, 1 - recognised.bbr) >= SURE


def looks(recogniser: Recogniser) -> list[int]:
    """After how many samples to ask: at each length that it knows, and every second in between.

    Most that is not sure after five seconds is a second or two later, when it looks at the latest
    five: each second of silence that is saved is sent in.
    """
    shortest = recogniser.seconds[0]
    longest = max(length for length in recogniser.seconds if length <= max(PROBE_MAX_S, shortest))
    known = {length for length in recogniser.seconds if length <= longest}
    between = {shortest + second for second in range(math.ceil(longest - shortest))}
    return sorted({round(length * recogniser.rate_hz) for length in known | between})


def _rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: round(number, 4) for name, number in numbers.items()}


def _rtt_range(samples: Sequence[Sample]) -> dict[str, float] | None:
    rtts = [sample.min_ns for sample in samples if sample.min_ns is not None]
    return {"min": min(rtts) / 1e6, "max": max(rtts) / 1e6} if rtts else None


def _is_nobody(known: Recognised) -> bool:
    return known.known and known.probabilities.get(IDLE, 0.0) >= _NOBODY


def _path_facts(path: PathState | None) -> dict[str, Any]:
    """What a path does, for a machine; nothing where that is not known."""
    if path is None:
        return {}
    full_bps = None if path.full_bps is None else round(path.full_bps)
    facts = {
        "use": path.use,
        "loss": float(f"{path.loss:.3g}"),
        "rtt_ms": round(1e3 * path.rtt_s, 3),
        "goodput_bps": round(path.goodput_bps),
        "full_bps": full_bps,
    }
    return {"path": facts}
