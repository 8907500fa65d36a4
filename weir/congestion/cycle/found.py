"""What a probing found, or listening, and how that is told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.congestion.choice import Choice
from weir.congestion.choice.decide import IDLE, OfKind, Recognised
from weir.congestion.options import PASSIVE
from weir.congestion.path import PathState
from weir.probe.active import TurnReport
from weir.probe.sample import Sample
from weir.probe.summary import turn_facts

LISTENING, DEADLINE, SENDING = "listening", "deadline", "sending"
_NOBODY = 0.5  # as likely as this it is that nobody else is there, where room on the path counts


@dataclass(frozen=True, slots=True)
class Found:
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
        own_bps: what the stream had until then; None where that was not looked at.
    """

    recognised: Recognised
    choice: Choice
    samples: Sequence[Sample]
    seconds: float
    turns: Sequence[TurnReport] = ()
    how: str = PASSIVE
    streams: int = 1
    own_bps: float | None = None

    @property
    def words(self) -> str:
        """How, and how long."""
        what = {LISTENING: LISTENING, DEADLINE: SENDING, SENDING: SENDING}.get(self.how, "probing")
        return f"{self.seconds:g} s of {what}"

    def facts(self, path: PathState | None, next_offset: int) -> dict[str, Any]:
        """What is told to machines.

        Args:
            path: what the kernel's counters say of it.
            next_offset: so much of the files the receiver holds.
        """
        choice, recognised = self.choice, self.recognised
        return {
            "control": choice.control,
            "why": choice.why,
            "probe": self.how,
            "probed_s": self.seconds,
            "probabilities": _rounded(recognised.probabilities),
            "bbr": round(recognised.bbr, 4),
            "known": recognised.known,
            **_kind_facts(recognised),
            "expected": {
                control: _rounded({"of_fair": e.of_fair, "jain": e.jain, "worth": e.worth})
                for control, e in choice.expected.items()
            },
            "streams": self.streams,
            "rtt_ms": _rtt_range(self.samples),
            **_path_facts(path),
            "next_offset": next_offset,
            **({"turns": [turn_facts(turn) for turn in self.turns]} if self.turns else {}),
        }


def is_nobody(known: Recognised) -> bool:
    """Whether nobody else is there, at least as likely as not."""
    return known.known and known.probabilities.get(IDLE, 0.0) >= _NOBODY


def _kind_facts(recognised: Recognised) -> dict[str, Any]:
    """The kind of the others, for a machine; nothing where nothing is said of kinds."""
    if not isinstance(recognised, OfKind) or not recognised.kinds:
        return {}
    return {"kind": recognised.kind, "kinds": _rounded(recognised.kinds)}


def _rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: round(number, 4) for name, number in numbers.items()}


def _rtt_range(samples: Sequence[Sample]) -> dict[str, float] | None:
    rtts = [sample.min_ns for sample in samples if sample.min_ns is not None]
    return {"min": min(rtts) / 1e6, "max": max(rtts) / 1e6} if rtts else None


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
