"""`weir ops shell`: the steps of OPS by hand, one after another (001-spec 8.3, `OPS>>`).

    weir ops> set to dtn7:7411
    weir ops> probe 5
    weir ops> send run7.h5 data/

`set` holds what the other commands need; `send` is `weir send`, with `--cca auto` unless a control
is set.
"""

import cmd
import itertools
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import TextIO

from weir.errors import BadInput, WeirError
from weir.ops.choice import Choice, Wanted, choose
from weir.ops.choice.decide import Recognised
from weir.ops.numbers import number
from weir.ops.probing import IcmpEcho, Plan, Probe, Target
from weir.ops.sample import Sample
from weir.ops.selection import Recogniser, default_control, offered_controls

_BARS = " ▁▂▃▄▅▆▇█"
_COLUMNS = 72


@dataclass
class Settings:
    """What `set` sets, as text.

    Attributes:
        to: HOST:PORT of the server.
        cca: `auto`, or a congestion control.
        fairness: see `weir send --fairness`.
        steady: see `weir send --steady`; empty for its default.
        keys: key directory; empty for --insecure.
        rate: pace; empty for none.
    """

    to: str = ""
    cca: str = "auto"
    fairness: str = "1"
    steady: str = ""
    keys: str = ""
    rate: str = ""

    @property
    def host(self) -> str:
        """Of `to`.

        Raises:
            BadInput: it is not set.
        """
        host, colon, _ = self.to.rpartition(":")
        if not colon or not host:
            raise BadInput("no server yet: set to HOST:PORT")
        return host.strip("[]")

    def words(self, source: Sequence[str], place: str) -> list[str]:
        """The `weir send` command that they mean."""
        command = ["send", *source, f"{self.to}/{place.lstrip('/')}", "--cca", self.cca]
        command += ["--keys", self.keys] if self.keys else ["--insecure"]
        if self.rate:
            command += ["--rate", self.rate]
        if self.cca == "auto":
            command += ["--fairness", self.fairness]
            command += ["--steady", self.steady] if self.steady else []
        return command


class Shell(cmd.Cmd):
    """Reads commands until `quit` or the end of its input.

    Args:
        recogniser: makes the recogniser, when it is needed first.
        command: runs a `weir` command; its exit code.
        to: the server, if it is known.
        stdin: where commands come from; the terminal by default.
        stdout: where answers go, likewise.
    """

    intro = "help lists the commands, help COMMAND explains one."
    prompt = "weir ops> "

    def __init__(
        self,
        recogniser: Callable[[], Recogniser],
        command: Callable[[list[str]], int],
        to: str = "",
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self._make_recogniser = recogniser
        self._recogniser: Recogniser | None = None
        self._command = command
        self._settings = Settings(to=to)
        self.exit_code = 0

    def onecmd(self, line: str) -> bool:
        """Carries out one line; what is wrong with it is told, and the shell goes on."""
        try:
            return bool(super().onecmd(line))
        except WeirError as error:
            self._say(f"weir: {error}")
            self.exit_code = error.exit_code
        except KeyboardInterrupt:
            self._say("")
        return False

    def emptyline(self) -> bool:
        """Does nothing: the last command is not repeated, since it may send."""
        return False

    def default(self, line: str) -> None:
        """Says that there is no such command."""
        if line == "EOF":
            self._say("")
            return
        raise BadInput(f"{line.split()[0]!r} is no command; help lists them")

    def postcmd(self, stop: bool, line: str) -> bool:
        """Ends with the input, too."""
        return stop or line == "EOF"

    def do_set(self, line: str) -> None:
        """Sets to, cca, fairness, steady, keys or rate (set NAME VALUE); no VALUE: the default."""
        name, *value = _words(line) or [""]
        known = {one.name: one.default for one in fields(Settings)}
        if name not in known:
            raise BadInput(f"set {name or 'NAME'}: there are {', '.join(known)}")
        text = " ".join(value) or str(known[name])
        if name == "cca" and text not in (controls := ["auto", *offered_controls()]):
            raise BadInput(f"cca {text}: this host offers {', '.join(controls)}")
        if name == "fairness":
            Wanted(fairness=float(number(name, text)))
        setattr(self._settings, name, text)

    def do_show(self, _line: str) -> None:
        """Shows the settings, and what this host offers."""
        for name, value in asdict(self._settings).items():
            self._say(f"{name:10} {value or '-'}")
        offered = " ".join(
            f"[{name}]" if name == default_control() else name for name in offered_controls()
        )
        self._say(f"{'offered':10} {offered}")

    def do_probe(self, line: str) -> None:
        """Probes the path, and says who is on it and what suits them: probe [SECONDS]."""
        recogniser = self._recogniser or self._make_recogniser()
        self._recogniser = recogniser
        lengths = ", ".join(f"{one:g}" for one in recogniser.seconds)
        seconds = number("probe", line) if line else Fraction(recogniser.seconds[0])
        if float(seconds) not in recogniser.seconds:
            raise BadInput(f"probe {line}: it can tell from {lengths} s")
        samples = self._samples(recogniser, seconds)
        recognised = recogniser.recognise(samples)
        self._tell(samples, recognised)
        wanted = Wanted(fairness=float(self._settings.fairness))
        choice = choose(recognised, offered_controls(), default_control(), wanted)
        self._say(f"choice     {choice.control}: {choice.why}")
        self._tell_expected(choice)

    def do_send(self, line: str) -> None:
        """Sends files or directories (send SOURCE... [PLACE/]); a PLACE ends with a slash."""
        words = _words(line)
        place = words.pop() if len(words) > 1 and words[-1].endswith("/") else ""
        if not words:
            raise BadInput("nothing to send: send SOURCE... [PLACE/]")
        _ = self._settings.host  # told if it is not set
        self.exit_code = self._command(self._settings.words(words, place))

    def do_quit(self, _line: str) -> bool:
        """Ends the shell."""
        return True

    def _samples(self, recogniser: Recogniser, seconds: Fraction) -> list[Sample]:
        target = Target.resolve(self._settings.host)
        rate = Fraction(recogniser.rate_hz)
        plan = Plan(rate_hz=rate, requests=recogniser.requests, seconds=seconds)
        with Probe(target, IcmpEcho(target), plan) as probe:
            return list(probe)

    def _tell(self, samples: Sequence[Sample], recognised: Recognised) -> None:
        rtts = [sample.rtt_ns / 1e6 for sample in samples if sample.rtt_ns is not None]
        low, high = min(rtts), max(rtts)
        self._say(f"rtt        {_curve(rtts, low, high)} {low:.1f} to {high:.1f} ms")
        likely = sorted(recognised.probabilities.items(), key=lambda one: -one[1])
        shares = "  ".join(f"{label} {share:.2f}" for label, share in likely if share >= 0.01)
        self._say(f"looks like {shares}" + ("" if recognised.known else "  (but is unlike them)"))
        self._say(f"BBR        {recognised.bbr:.2f}")

    def _tell_expected(self, choice: Choice) -> None:
        for control, expected in choice.expected.items():
            self._say(
                f"  {control:8} {expected.of_fair:.2f} of an equal share, "
                f"Jain's index {expected.jain:.2f}"
            )

    def _say(self, text: str) -> None:
        self.stdout.write(text + "\n")


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
