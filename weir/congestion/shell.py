"""`weir ops shell`: the steps of OPS by hand, one after another (001-spec 8.3, `OPS>>`).

    weir ops> set to dtn7:7411
    weir ops> probe 5
    weir ops> send run7.h5 data/

`set` holds what the other commands need; `send` is `weir send`, with `--cca auto` unless a control
is set. `probe active` and `run` send bytes without meaning to the sink of a `weir probe --serve`.
"""

import cmd
import itertools
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import TextIO

from weir import kernel_controls
from weir._core import Time
from weir.congestion import options
from weir.congestion.choice import FAIRNESS, Choice, Wanted
from weir.congestion.choice.decide import OfKind, Recognised
from weir.congestion.cycle.cycle import decide
from weir.congestion.cycle.settings import Recogniser
from weir.congestion.options import Request
from weir.errors import BadInput, WeirError
from weir.format import mbit_s
from weir.numbers import number
from weir.printable import printable
from weir.probe import Active, Filler, Pattern, Plan, Probe, SinkCarrier, Target
from weir.probe.carrier import require_congestion
from weir.probe.echo import echo_to
from weir.probe.responder import DEFAULT_PORT
from weir.probe.sample import Sample

_BARS = " ▁▂▃▄▅▆▇█"
_COLUMNS = 72
_RUN_MAX_S = 3600
_NO_KEYS = "none"
_INTERRUPTED = 130


@dataclass
class Settings:
    """What `set` sets, as text.

    Attributes:
        to: HOST:PORT of the server.
        cca: `auto`, or a congestion control.
        fairness: see `weir send --fairness`.
        steady: see `weir send --steady`; empty for its default.
        keys: key directory; empty for the default of `weir send`, `none` for --insecure.
        rate: pace; empty for none.
        sink: port of the server's `weir probe --serve`.
        log: file for what is chosen; empty for none.
        label: on each line of it.
        probe: see `weir.congestion.options.Request`, also for those below; empty for the default.
    """

    to: str = ""
    cca: str = options.AUTO
    fairness: str = str(FAIRNESS)
    steady: str = ""
    keys: str = ""
    rate: str = ""
    sink: str = str(DEFAULT_PORT)
    log: str = ""
    label: str = ""
    probe: str = ""
    pattern: str = ""
    classifier: str = ""
    neighbours: str = ""
    band: str = ""
    window: str = ""
    recordings: str = ""
    rule: str = ""
    udp: str = ""

    @property
    def host(self) -> str:
        """The host that `to` names.

        Raises:
            BadInput: it is not set.
        """
        host, colon, _ = self.to.rpartition(":")
        if not colon or not host:
            raise BadInput("no server yet: set to HOST:PORT")
        return host.strip("[]")

    @property
    def request(self) -> Request:
        """How it is probed.

        Raises:
            BadInput: one of the settings cannot be, or not beside the others.
        """
        if self.pattern:
            Pattern.parse(self.pattern)
        return options.parse({name: getattr(self, name) for name in options.NAMES})

    def words(self, source: Sequence[str], place: str) -> list[str]:
        """The `weir send` command that they mean."""
        command = ["send", *source, f"{self.to}/{place.lstrip('/')}", "--cca", self.cca]
        if self.keys == _NO_KEYS:
            command += ["--insecure"]
        elif self.keys:
            command += ["--keys", self.keys]
        if self.rate:
            command += ["--rate", self.rate]
        if self.cca == options.AUTO:
            command += ["--fairness", self.fairness]
            optional = {"steady": self.steady, "ops-log": self.log, "ops-label": self.label}
            optional |= {name: getattr(self, name) for name in options.NAMES}
            for name, value in optional.items():
                command += [f"--{name}", value] if value else []
        return command


class Shell(cmd.Cmd):
    """Reads commands until `quit` or the end of its input.

    Args:
        recogniser: makes the recogniser of a request, when it is needed first.
        command: runs a `weir` command; its exit code.
        to: the server, if it is known.
        stdin: where commands come from; the terminal by default.
        stdout: where answers go, likewise.
    """

    intro = "help lists the commands, help COMMAND explains one."
    prompt = "weir ops> "

    def __init__(
        self,
        recogniser: Callable[[Request], Recogniser],
        command: Callable[[list[str]], int],
        to: str = "",
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self._make_recogniser = recogniser
        self._recognisers: dict[Request, Recogniser] = {}
        self._command = command
        self._settings = Settings(to=to)
        self.exit_code = 0

    def onecmd(self, line: str) -> bool:
        """Carries out one line; what is wrong with it is told, and the shell goes on."""
        try:
            return bool(super().onecmd(line))
        except WeirError as error:
            self._say(f"weir: {printable(str(error))}")
            self.exit_code = error.exit_code
        except KeyboardInterrupt:
            self._say("")
            self.exit_code = _INTERRUPTED
        return False

    def emptyline(self) -> bool:
        """Does nothing: the last command is not repeated, since it may send."""
        return False

    def default(self, line: str) -> None:
        """Says that there is no such command."""
        if line == "EOF":
            self._say("")
            return
        raise BadInput(f"{line.split()[0]!r} is not a command; help lists them")

    def postcmd(self, stop: bool, line: str) -> bool:
        """Ends with the input, too."""
        return stop or line == "EOF"

    def do_set(self, line: str) -> None:
        """Sets what the other commands need (set NAME VALUE); no VALUE: the default."""
        name, *value = _words(line) or [""]
        known = {one.name: one.default for one in fields(Settings)}
        if name not in known:
            raise BadInput(f"set {name or 'NAME'}: there are {', '.join(known)}")
        text = " ".join(value) or str(known[name])
        if name == "cca" and text not in (controls := [options.AUTO, *kernel_controls.offered()]):
            raise BadInput(f"cca {text}: this host offers {', '.join(controls)}")
        if name == "fairness":
            text = str(float(number(name, text)))
            Wanted(fairness=float(text))
        if name == "steady" and text:
            Time(text)
        if name == "sink":
            _port(text)
        new = replace(self._settings, **{name: text})
        _ = new.request  # told if it cannot be
        self._settings = new

    def do_show(self, _line: str) -> None:
        """Shows the settings, what this host offers, and the patterns that are recorded."""
        for name, value in asdict(self._settings).items():
            self._say(f"{name:10} {value or '-'}")
        default = kernel_controls.default()
        offered = " ".join(
            f"[{name}]" if name == default else name for name in kernel_controls.offered()
        )
        self._say(f"{'offered':10} {offered}")
        from weir.congestion.recordings import (  # numpy, which nothing else here takes
            KERNEL_ACTIVE,
            load,
        )

        recordings = load(self._settings.recordings or KERNEL_ACTIVE)
        patterns = dict.fromkeys(one.pattern for one in recordings if one.pattern)
        self._say(f"{'patterns':10} {' '.join(patterns) or '-'}")

    def do_probe(self, line: str) -> None:
        """Probes, and says who is there and what suits them: probe [passive|active] [SECONDS]."""
        words = _words(line)
        settings = self._settings
        if words and words[0] in options.PROBES:
            how = words.pop(0)
            pattern = settings.pattern if how == options.ACTIVE else ""
            settings = replace(settings, probe=how, pattern=pattern)
        asked = settings.request
        if asked not in self._recognisers:
            self._recognisers[asked] = self._make_recogniser(asked)
        recogniser = self._recognisers[asked]
        lengths = ", ".join(f"{one:g}" for one in recogniser.seconds)
        seconds = number("probe", words[0]) if words else Fraction(recogniser.seconds[0])
        if float(seconds) not in recogniser.seconds:
            raise BadInput(f"probe {line}: the classifier needs {lengths} s")
        samples = self._samples(recogniser, seconds, asked)
        recognised = recogniser.recognise(samples)
        self._tell(samples, recognised)
        wanted = Wanted(fairness=float(settings.fairness))
        choice = decide(
            asked.how_chosen, recognised, kernel_controls.default(), wanted, samples=samples
        )
        self._say(f"choice     {choice.control}: {choice.why}")
        self._tell_expected(choice)

    def do_run(self, line: str) -> None:
        """Sends bytes without meaning for some seconds, and says how many: run SECONDS."""
        seconds = number("run", line)
        if not 0 < seconds <= _RUN_MAX_S:
            raise BadInput(f"run {line}: above 0 and up to {_RUN_MAX_S} s")
        cca = self._settings.cca
        control = kernel_controls.default() if cca == options.AUTO else cca
        with self._sink(Target.resolve(self._settings.host)) as carrier:
            begin_s = time.monotonic()
            carrier.carry(control)
            threading.Event().wait(float(seconds))
            confirmed, took_s = carrier.confirmed_bytes, time.monotonic() - begin_s
            carrier.check()
        self._say(
            f"{control:10} {mbit_s(confirmed * 8 / took_s)}: {confirmed} bytes confirmed "
            f"in {took_s:.1f} s"
        )

    def do_send(self, line: str) -> None:
        """Sends files or directories (send SOURCE... [PLACE/]); a PLACE ends with a slash."""
        words = _words(line)
        place = words.pop() if len(words) > 1 and words[-1].endswith("/") else ""
        if not words:
            raise BadInput("nothing to send: send SOURCE... [PLACE/]")
        _ = self._settings.host  # told if it is not set
        try:
            self.exit_code = self._command(self._settings.words(words, place))
        except SystemExit as end:  # of an argument that `weir send` does not know: it has said so
            self.exit_code = end.code if isinstance(end.code, int) else 2

    def do_quit(self, _line: str) -> bool:
        """Ends the shell."""
        return True

    def _samples(self, recogniser: Recogniser, seconds: Fraction, asked: Request) -> list[Sample]:
        target = Target.resolve(self._settings.host)
        rate = Fraction(recogniser.rate_hz)
        plan = Plan(rate_hz=rate, requests=recogniser.requests, seconds=seconds)
        if asked.bursts is None:
            with Probe(target, echo_to(target, asked.udp), plan) as probe:
                return list(probe)
        pattern = Pattern.parse(asked.bursts)
        require_congestion(pattern.congestions)
        with self._sink(target) as carrier:
            active = Active(pattern, carrier)
            with Probe(target, echo_to(target, asked.udp), plan, active) as probe:
                return list(probe)

    @contextmanager
    def _sink(self, target: Target) -> Iterator[SinkCarrier]:
        with closing(SinkCarrier(target, _port(self._settings.sink), Filler())) as carrier:
            yield carrier

    def _tell(self, samples: Sequence[Sample], recognised: Recognised) -> None:
        rtts = [sample.rtt_ns / 1e6 for sample in samples if sample.rtt_ns is not None]
        low, high = min(rtts), max(rtts)
        self._say(f"rtt        {_curve(rtts, low, high)} {low:.1f} to {high:.1f} ms")
        likely = sorted(recognised.probabilities.items(), key=lambda one: -one[1])
        shares = "  ".join(f"{label} {share:.2f}" for label, share in likely if share >= 0.01)
        self._say(f"looks like {shares}" + ("" if recognised.known else "  (but is unlike them)"))
        self._say(f"BBR        {recognised.bbr:.2f}")
        if isinstance(recognised, OfKind) and recognised.kind is not None:
            self._say(f"kind       {recognised.kind} {recognised.kinds[recognised.kind]:.2f}")

    def _tell_expected(self, choice: Choice) -> None:
        for control, expected in choice.expected.items():
            self._say(
                f"  {control:8} {expected.of_fair:.2f} of an equal share, "
                f"Jain's index {expected.jain:.2f}"
            )

    def _say(self, text: str) -> None:
        self.stdout.write(text + "\n")


def _port(text: str) -> int:
    port = number("sink", text)
    if port.denominator != 1 or not 1 <= port <= 65_535:
        raise BadInput(f"sink {text}: a port is needed, 1 to 65535")
    return int(port)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BadInput(f"{line}: {error}") from None


def _curve(values: Sequence[float], low: float, high: float) -> str:
    """Values as a row of blocks, the mean of some in each where there are many."""
    count = min(_COLUMNS, len(values))
    cuts = [round(number * len(values) / count) for number in range(count + 1)]
    span = (high - low) or 1.0
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(cuts)]
    return "".join(_BARS[1 + round((mean - low) / span * (len(_BARS) - 2))] for mean in means)
