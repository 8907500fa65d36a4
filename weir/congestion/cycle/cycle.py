"""The cycle of OPS beside a transfer: learn, recognise, choose, send on (001-spec 6.4).

    learning --samples--> recognising --who--> choosing --control--> steady
       ^                                                               |
       +---- Y is over, or the kernel's counters changed --------------+
                                             ^                         |
                                             +-- others are heard,   --+
                                                 or the file is late

A transfer that is free to begin sends from the first byte and learns meanwhile. While its
connections are made the path is silent anyway, and where that silence shows that nobody else is
there (`beginning`) nothing else is needed. Otherwise others are heard beside the file's own stream
(`learning`), and where these are streams of CUBIC it takes its share among them (`entering`). What
the path itself does to packets shows while it sends (`room`): where nobody else is and the control
leaves some of the path unused, another takes its place, or more streams do where the host offers
none.

What is not free to begin, or cannot be heard beside, is probed in silence: passively, so that the
background shows its own signature, or actively, and the transfer's own bytes go out in a pattern of
bursts. Its connections stay, and change their congestion control in place. While it sends on, a
prober listens, and who is heard then takes the place of silence (`monitor`).
Whatever goes wrong with probing or recognising, the transfer goes on with the control that it has,
and that is told.
"""

import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from weir import kernel_controls
from weir._core import Rate
from weir.congestion.choice import Choice, Interaction, Wanted, choose
from weir.congestion.choice.decide import Recognised, one_level_tree
from weir.congestion.choice.known import Echoes
from weir.congestion.choice.reach import LOSS_BASED
from weir.congestion.choice.response import streams_to_fill
from weir.congestion.classify.beside import OWN, Count, can_hear
from weir.congestion.cycle.beginning import begin
from weir.congestion.cycle.change import EARLIEST_S, ChangeDetector
from weir.congestion.cycle.demand import Demand, Trend
from weir.congestion.cycle.entering import LONGEST_S, UNDER, Entry
from weir.congestion.cycle.found import DEADLINE, LISTENING, SENDING, Found, is_nobody
from weir.congestion.cycle.learning import Learning, are_like_ours
from weir.congestion.cycle.monitor import Ear, Listener
from weir.congestion.cycle.opening import Nobody, Opening
from weir.congestion.cycle.probing import is_sure, looks
from weir.congestion.cycle.room import Room
from weir.congestion.cycle.samples import RATE_HZ, Samples
from weir.congestion.cycle.sender import LOOK_S, Sender
from weir.congestion.cycle.settings import Recogniser, Settings
from weir.congestion.event_log import EventLog
from weir.congestion.options import PASSIVE, Rule
from weir.congestion.path import PathState, path_words
from weir.errors import Unavailable, WeirError
from weir.format import mbit_s
from weir.probe.carrier import require_congestion
from weir.probe.constructive import TransferCarrier
from weir.probe.echo import Echo, Target, echo_to
from weir.probe.pattern import Pattern
from weir.probe.probe import Active, Probe
from weir.probe.sample import Sample
from weir.probe.sampling import Plan
from weir.transfer import Transfer
from weir.transfer.watch import ThreadedCompanion

_logger = logging.getLogger(__name__)

_LEAST_STEADY_S = EARLIEST_S  # doubled each time that probing again changed nothing
_MISTAKE_S = 20.0  # a control that is taken again so soon was left by mistake
_PATIENCE_MAX = 8
_QUIET_EVERY = 5  # samples of a silence: so often it is asked whether it was quiet
_NICE = 10  # beside others that want the same core it has a tenth of that
_GRACE_S = 1.0  # so long it sends before a silence
_READ_S = 0.05  # between two looks at the path where no prober sets the pace
_PACE_STEP = 0.05  # paces that differ by less are the same
_ENTERS_S = 20.0  # with less than this to go a stream does not enter anew


def decide(
    rule: Rule,
    recognised: Recognised,
    current: str,
    wanted: Wanted,
    interaction: Interaction | None = None,
    path: PathState | None = None,
    controls: Sequence[str] | None = None,
    fallback: str | None = None,
    samples: Sequence[Sample] = (),
) -> Choice:
    """The control for this host's connections, by either rule; see `choose` for the rest.

    `controls` are those that may be chosen; None for all that the host offers. `samples` tell the
    path's round-trip time, and whether a queue stands.

    Raises:
        Unsupported: the work's tree wants one that this host does not offer.
    """
    if rule == "tree" and recognised.known:
        choice = one_level_tree(recognised)
        require_congestion([choice.control])
        return choice
    offered = kernel_controls.offered() if controls is None else controls
    echoes = Echoes.of(samples)
    return choose(recognised, offered, current, wanted, interaction, path, fallback, echoes)


class Selection(ThreadedCompanion):
    """Selects a transfer's congestion control while it runs; the choice that stands remains.

    Args:
        transfer: made `PAUSED`, so that it is silent until the path is probed; see
            `Settings.silence`.
        recogniser: makes the recogniser, which may take a moment.
        settings: how to select.
    """

    def __init__(
        self, transfer: Transfer, recogniser: Callable[[], Recogniser], settings: Settings
    ) -> None:
        super().__init__("weir-selection")
        sender = Sender(transfer, settings.fallback, settings.rate, self._stop)
        self._transfer, self._sender = transfer, sender
        self._room = Room(sender)
        self._make_recogniser = recogniser
        self._settings = settings
        self._event_log = EventLog(self._add_news, settings.log, settings.label)
        self._demand = Demand(settings.deadline, settings.clock)
        self._pattern: Pattern | None = None
        self._begun_s: float | None = None  # since when it sends, where it does before a silence
        self._is_advised = False
        self._entry: Entry | None = None  # while it lasts
        self._had_bps: float | None = None  # what an entry ended with
        self._paced_bps: int | None = None  # at what it paces now
        self._samples: Sequence[Sample] = ()  # of the last choice
        self._expected_own = 0.0  # share of the path's rate under the control in use
        self._patience: dict[str, int] = {}  # before a control is left for what is heard
        self._left: tuple[str, float] | None = None  # for what was heard: which, and when

    @property
    def control(self) -> str:
        """The congestion control in use."""
        return self._sender.control

    @property
    def status(self) -> str:
        """What it is at, or the control in use."""
        if self._entry:
            return f"{self.control}, entering"
        return "probing the path" if self._sender.is_held else self.control

    def set_rate(self, rate: Rate | None) -> None:
        """The transfer's pace from now on, or from the end of the probing that is going on.

        Args:
            rate: None is unpaced.
        """
        self._sender.set_pace(rate)

    def _run(self) -> None:
        settings = self._settings
        try:
            opened = self._open(settings.silence) if settings.silence is not None else None
            if self._is_over():
                return
            if settings.pattern is not None:
                self._pattern = Pattern.parse(settings.pattern)
                require_congestion(self._pattern.congestions)
            is_urgent = opened is None and not self._room.is_held
            recogniser = self._recogniser(is_urgent=is_urgent)
            if recogniser and (target := self._target()):
                self._cycle(recogniser, target, opened)
        except WeirError as error:
            self._go_on(str(error))
        except Exception as error:
            # A fault of ours is no reason for the file to be late.
            _logger.exception("the choice of a congestion control failed")
            self._go_on(f"{type(error).__name__}: {error}")
        finally:
            self._sender.release_pace()

    def _recogniser(self, *, is_urgent: bool) -> Recogniser | None:
        """Makes it; None if the transfer is over before, whose end does not wait for it.

        Where nobody is who would wait for it, it is made in what time the file leaves.
        """
        made: queue.SimpleQueue[Recogniser | Exception] = queue.SimpleQueue()

        def make() -> None:
            try:
                if not is_urgent:  # a thread's own, which ends with it
                    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
                made.put(self._make_recogniser())
            except Exception as error:
                made.put(error)

        threading.Thread(target=make, name="weir-recogniser", daemon=True).start()
        while not self._is_over():
            with contextlib.suppress(queue.Empty):
                found = made.get(timeout=_READ_S)
                if isinstance(found, Exception):
                    raise found
                return found
        return None

    def _target(self) -> Target | None:
        """The host at the other end of the connection, once there is one; None if it never is."""
        while not self._is_over():
            # A connection has its host's default, or what its route says.
            if (ports := self._transfer.ports()) and (own := self._transfer.congestion()):
                self._sender.control = own
                return Target.resolve(ports[0][2])
            self._stop.wait(LOOK_S / 5)
        return None

    def _go_on(self, reason: str) -> None:
        """With the control in use, which a burst of active probing may have replaced."""
        if self._is_over():
            return
        if self._pattern:
            # It was in use before: what speaks against it now ends the transfer, too.
            with contextlib.suppress(WeirError):
                self._transfer.set_congestion(self.control)
        words = f"{reason}; the transfer goes on with {self.control}"
        self._event_log.tell("fallback", words, reason=reason, control=self.control)

    def _open(self, silence: Samples) -> Recognised | None:
        """Sends at once, and chooses where nobody else is; None where others have to be heard."""
        begun = begin(silence, self._sender, self._room)
        self._begun_s = time.monotonic()
        if begun is None or self._is_over():
            return None
        self._sender.control = self._transfer.congestion() or self.control
        choice = self._choose(begun.who, begun.samples)
        choice = replace(choice, why=f"{begun.who.why}: {choice.control}, 1 stream")
        self._use(Found(begun.who, choice, begun.samples, begun.seconds, how=SENDING))
        return begun.who

    def _wait_for_small(self) -> None:
        """Before a silence: what is small may be over first."""
        if self._begun_s is None:
            return
        end_s = self._begun_s + _GRACE_S
        while self._sender.is_small and time.monotonic() < end_s and not self._is_over():
            self._stop.wait(_READ_S)

    def _cycle(
        self, recogniser: Recogniser, target: Target, opened: Recognised | None = None
    ) -> None:
        least_s = _LEAST_STEADY_S
        chosen: str | None = None
        heard: Found | None = None
        if opened:
            chosen, known = self.control, opened
            heard = self._steady(recogniser, target, known, least_s)
        while not self._is_over():
            try:
                found = heard or self._find_out(recogniser, target, is_first=chosen is None)
            except Unavailable as error:
                if chosen is None:
                    raise
                # The path answered before: what is known of it stands until it answers again.
                self._go_on(str(error))
                self._sender.release_pace()
                least_s *= 2
            else:
                if found is None:
                    return
                before = chosen, self._sender.streams
                self._use(found)
                now = found.choice.control, found.streams
                least_s = 2 * least_s if now == before else _LEAST_STEADY_S
                chosen, known = self.control, found.recognised
            heard = self._steady(recogniser, target, known, least_s)

    def _find_out(self, recogniser: Recogniser, target: Target, *, is_first: bool) -> Found | None:
        """Who is there: heard beside one stream that sends, where that tells; else in silence."""
        if not is_first:
            self._room.begin_anew()
        self._room.opening = None
        is_free = self._settings.silence is not None and self._sender.streams == 1
        can_hear = is_free and self.control in OWN and self._sender.unpaced_streams() == 1
        if can_hear and isinstance(recogniser, Ear):
            return self._hear(recogniser, target)
        return self._probe(recogniser, target)

    def _hear(self, ear: Ear, target: Target) -> Found | None:
        """Hears who is there while it sends; None if the transfer was over before."""
        learning = Learning(ear, self.control)
        plan = Plan(rate_hz=Fraction(ear.rate_hz), requests=1, seconds=None)
        with Samples(lambda: Probe(target, self._echo(target), plan)) as samples:
            while not (self._is_over() or samples.is_over):
                taken = samples.take_all(_READ_S)
                self._room.look()
                if self._room.is_held:
                    learning = Learning(ear, self.control)
                    continue
                path, count = self._room.path, self._counted()
                told = (learning.hears(sample, path, count) for sample in taken)
                if heard := next(filter(None, told), None):
                    choice = self._choose(heard, learning.samples)
                    seconds = round(learning.seconds, 1)
                    return Found(heard, choice, learning.samples, seconds, how=LISTENING)
        return None

    def _probe(self, recogniser: Recogniser, target: Target) -> Found | None:
        """Samples for as long as it takes to be sure; None if the transfer was over before."""
        self._wait_for_small()
        self._sender.hold_pace()
        # Beside others it tells something else.
        self._room.begin_anew()
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
                    recognised, self._room.opening = Nobody("the path was quiet"), silence
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
        choice = self._choose(recognised, samples)
        return Found(recognised, choice, samples, seconds, probe.turns, how)

    def _listens_for_quiet(self, recogniser: Recogniser) -> tuple[int, Opening | None]:
        """How many times as often as the recogniser wants samples it is listened, to hear quiet."""
        often, rest = divmod(RATE_HZ, recogniser.rate_hz)
        if self._settings.silence is None or rest or not often:
            return 1, None
        return int(often), Opening()

    def _is_quiet(self, silence: Opening, sample: Sample) -> bool:
        silence.hears_silence(sample)
        return not sample.index % _QUIET_EVERY and silence.is_quiet

    def _begin(self, stack: contextlib.ExitStack) -> Active | None:
        """Falls silent; or lets a pattern drive the transfer."""
        if self._pattern is None:
            self._sender.fall_silent()
            return None
        carrier = TransferCarrier(self._transfer, self._sender.pace)
        return Active(self._pattern, stack.enter_context(carrier))

    def _choose(self, recognised: Recognised, samples: Sequence[Sample] = ()) -> Choice:
        """Beside whom was recognised, from samples or from what they were at the last choice."""
        self._samples = samples or self._samples
        settings, pace = self._settings, self._sender.pace
        share = self._demand.share(self._transfer.remaining.count, pace)
        wanted = Wanted(fairness=settings.fairness, share=share)
        path = self._room.path if settings.reads_path else None
        return decide(
            settings.rule,
            recognised,
            self.control,
            wanted,
            settings.interaction,
            path,
            settings.controls,
            settings.fallback,
            self._samples,
        )

    def _use(self, found: Found) -> None:
        """Sends as it was found, from now on; a late stream enters before."""
        entry, self._had_bps = self._entry_for(found), None
        if entry is None:
            before = self.control
            self._sender.take(found.choice.control, found.streams)
            # What BBR squeezed has a window of a few packets and knows the round trip of an empty
            # queue: under BBR, too, it would be a minute in coming to its share among others.
            if before != UNDER == self.control and found.recognised.bbr > 0.5:
                self._sender.start_anew()
        own = found.choice.expected.get(found.choice.control)
        self._expected_own = own.own if own else 0.0
        self._sender.release_pace()
        words = f"{found.choice.control} after {found.words}: {found.choice.why}"
        offset = self._transfer.progress().bytes_durable.count
        self._event_log.tell("choice", words, **found.facts(self._room.path, offset))
        if entry is not None:
            self._entry = entry
            self._enter(entry)
            self._sender.take(found.choice.control, found.streams)
            if entry.phase == "over":
                self._end_entry()

    def _entry_for(self, found: Found) -> Entry | None:
        """How it comes to its share where streams of CUBIC or Reno are; None where it need not."""
        settings, path = self._settings, self._room.path
        offered = kernel_controls.offered() if settings.controls is None else settings.controls
        is_free = settings.reads_path and settings.silence is not None
        is_free = is_free and found.how == LISTENING
        if not is_free or found.choice.control == UNDER or UNDER not in offered:
            return None
        is_over = self.control == UNDER  # and has more than its share
        own_bps = found.own_bps if is_over else path.goodput_bps if path else None
        if own_bps is None or (not is_over and path and path.use == "room"):
            return None
        if 8 * self._transfer.remaining.count < _ENTERS_S * own_bps:
            return None
        is_long = path is not None and path.rtt_s + path.queue_s > LONGEST_S
        if is_long or not are_like_ours(found.recognised, LOSS_BASED):
            return None
        return Entry(own_bps, is_over=is_over)

    def _enter(self, entry: Entry) -> None:
        """Sends as an entry says, until it is to be under what was chosen."""
        begin_s = time.monotonic()
        if entry.phase == "running":
            self._sender.take(UNDER, 1)
        self._sender.hold_pace()
        pace_bps = None
        while entry.phase in ("running", "holding") and not self._is_over():
            pace_bps = self._pace(entry, pace_bps)
            self._stop.wait(_READ_S)
            entry.sees(time.monotonic(), self._room.look())
        pace_bps = self._pace(entry, pace_bps)
        self._paced_bps = pace_bps
        seconds = round(time.monotonic() - begin_s, 1)
        self._had_bps = pace_bps
        words = f"entered in {seconds:g} s"
        words += f" at {mbit_s(pace_bps)}" if pace_bps else ""
        self._event_log.tell("enter", words, seconds=seconds, pace_bps=pace_bps, share=entry.share)

    def _pace(self, entry: Entry, pace_bps: int | None) -> int | None:
        """Paces it as an entry wants it, if that is more than a little otherwise; the pace."""
        wanted = entry.pace_bps
        if wanted is None or (pace_bps and abs(wanted - pace_bps) < _PACE_STEP * pace_bps):
            return pace_bps
        self._transfer.set_rate(Rate.from_bit_per_s(round(wanted)))
        return round(wanted)

    def _settles(self) -> None:
        """Keeps the pace of an entry for as long as that says."""
        if self._entry is None:
            return
        if self._entry.sees(time.monotonic(), self._room.look()) == "over":
            self._end_entry()
            self._event_log.note("settled", control=self.control)
        else:
            self._paced_bps = self._pace(self._entry, self._paced_bps)

    def _end_entry(self) -> None:
        if self._entry:
            self._entry = None
            self._sender.release_pace()

    def _steady(
        self, recogniser: Recogniser, target: Target, known: Recognised, least_s: float
    ) -> Found | None:
        """Sends on until the path is to be probed again, or until that is not needed to choose.

        Args:
            recogniser: also listens, if it can.
            target: the other host.
            known: who is on the path, as far as is known.
            least_s: for how long, whatever the kernel's counters say.
        """
        begin_s = time.monotonic()
        self._sender.connections.look()
        acked = self._sender.connections.acked_bytes
        listener = self._listener(recogniser, is_alone=is_nobody(known))
        with contextlib.closing(self._beats(recogniser if listener else None, target)) as beats:
            found = self._await(beats, listener, known, least_s)
        self._end_entry()
        seconds = time.monotonic() - begin_s
        self._sender.connections.look()
        goodput_bps = 8 * (self._sender.connections.acked_bytes - acked) / max(seconds, 1e-3)
        if seconds > 1 and not self._room.is_held:
            self._demand.learn(goodput_bps, self._expected_own, self._sender.pace)
        self._event_log.note(
            "steady",
            control=self.control,
            seconds=round(seconds, 3),
            goodput_bps=round(goodput_bps),
            next_offset=self._transfer.progress().bytes_durable.count,
        )
        return found

    def _await(
        self,
        beats: Iterable[Sequence[Sample]],
        listener: Listener | None,
        known: Recognised,
        least_s: float,
    ) -> Found | None:
        """What `_steady` does, by the beats of its clock."""
        steady_s = self._settings.steady_s
        changes, changed = ChangeDetector(), None
        trend = Trend() if self._settings.deadline else None
        begin_s, look_s = time.monotonic(), LOOK_S
        for samples in beats:
            seconds = time.monotonic() - begin_s
            if self._is_over() or (steady_s is not None and 0 < steady_s <= seconds):
                return None
            self._settles()
            if listener and self._is_held():
                listener.rest()
                changes, changed = ChangeDetector(), None
                trend = Trend() if trend else None
            elif listener and samples and (found := self._listens(listener, samples, seconds)):
                self._leave(begin_s + seconds)
                return found
            if steady_s is None and (found := self._finds_room(known, seconds)):
                return found
            if what := self._room.doubts(samples, seconds):
                self._event_log.tell("change", f"{what}: the path is probed", what=what)
                return None
            if seconds < look_s:
                continue
            look_s = seconds + LOOK_S
            connections = self._sender.connections.look()
            acked = self._sender.connections.acked_bytes
            if trend and (goodput_bps := trend.sees(seconds, acked)):
                choice = self._in_time(known, goodput_bps)
                if choice.control != self.control:
                    took_s, streams = round(seconds, 1), self._sender.streams
                    return Found(known, choice, (), took_s, how=DEADLINE, streams=streams)
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

    def _listens(
        self, listener: Listener, samples: Sequence[Sample], seconds: float
    ) -> Found | None:
        """Another control, once it is heard that the one in use does not suit who is there."""
        listener.carries(seconds, self._counted())
        for heard in filter(None, map(listener.hears, samples)):
            choice = self._choose(heard, listener.samples)
            if choice.control == self.control:
                listener.forget()
                continue
            shown, took_s, own_bps = listener.samples, round(seconds, 1), listener.own_bps
            return Found(heard, choice, shown, took_s, how=LISTENING, own_bps=own_bps)
        return None

    def _counted(self) -> Count:
        """What the file's connections count now, all of them together."""
        window = sum((one.cwnd_packets or 0) * (one.mss_bytes or 0) for one in self._room.look())
        return Count(self._sender.connections.acked_bytes, window)

    def _is_held(self) -> bool:
        """Whether files and not the path are the limit: then whatever is chosen gets no more."""
        self._room.look()
        return self._room.is_held

    def _finds_room(self, known: Recognised, seconds: float) -> Found | None:
        """Another control, where nobody is and the one in use leaves some of the path unused."""
        if not self._settings.reads_path or not is_nobody(known):
            return None
        connections = self._room.look()
        path, streams = self._room.path, self._sender.streams
        if path is None or path.use != "room" or len(connections) < streams:
            return None
        choice, more = self._choose(known), 1
        if choice.control == self.control:
            more = self._room.more_streams(path)
            if more == streams:
                self._advise(path)
                return None
        words = f"{more} streams" if more > 1 else "1 stream"
        choice = replace(choice, why=f"{path_words(path)}: {choice.control}, {words}")
        return Found(known, choice, (), round(seconds, 1), how=SENDING, streams=more)

    def _advise(self, path: PathState) -> None:
        """Says once what would get more where the host offers no control that fills the path."""
        count = streams_to_fill(self.control, path)
        if count > self._sender.streams and not self._is_advised:
            self._is_advised = True
            words = f"{path_words(path)}: --streams {count} would get more than one {self.control}"
            self._event_log.tell("advice", words, streams=count)

    def _in_time(self, known: Recognised, goodput_bps: float) -> Choice:
        """The control for the same background, now that it shows whether the file will be late."""
        self._demand.learn(goodput_bps, self._expected_own, self._sender.pace)
        choice = self._choose(known)
        if choice.control != self.control:
            needed_bps = self._demand.bps(self._transfer.remaining.count, self._sender.pace)
            words = (
                f"{self.control} gets {mbit_s(goodput_bps)}; the deadline takes "
                f"{mbit_s(needed_bps)}"
            )
            facts = {"goodput_bps": round(goodput_bps), "needed_bps": round(needed_bps)}
            self._event_log.tell("deadline", words, control=self.control, **facts)
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
        self._left = self.control, at_s

    def _listener(self, recogniser: Recogniser, *, is_alone: bool) -> Listener | None:
        """None where the samples of a prober would tell nothing."""
        is_wanted = self._settings.steady_s is None and self._settings.pattern is None
        if not (is_wanted and self.control in OWN and isinstance(recogniser, Ear)):
            return None
        streams = self._sender.unpaced_streams()
        # Those that joined because nobody is there the room watches, and not all are there yet.
        if self._sender.streams > 1 or not can_hear(self.control, streams):
            return None
        patience = self._patience.get(self.control, 1)
        return Listener(
            recogniser, self.control, patience, self._had_bps, is_alone=is_alone, streams=streams
        )

    def _beats(self, listens: Recogniser | None, target: Target) -> Generator[Sequence[Sample]]:
        """Samples of the path for who listens to them; else none, every now and then."""
        if listens:
            plan = Plan(rate_hz=Fraction(listens.rate_hz), requests=listens.requests, seconds=None)
            with (
                contextlib.suppress(Unavailable),
                Samples(lambda: Probe(target, self._echo(target), plan)) as samples,
            ):
                while not (self._stop.is_set() or samples.is_over):
                    yield samples.take_all(_READ_S)
        while not self._stop.wait(_READ_S if self._settings.reads_path else LOOK_S):
            yield ()

    def _echo(self, target: Target) -> Echo:
        return echo_to(target, self._settings.udp)

    def _is_over(self) -> bool:
        return self._stop.is_set() or self._transfer.is_over
