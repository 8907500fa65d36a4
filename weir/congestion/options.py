"""What `weir send --cca auto` and `weir ops shell` may be asked, and what comes of it.

Imports nothing that takes long: every `weir send` reads its options.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from weir._core import Time
from weir.errors import BadInput
from weir.numbers import number

AUTO = "auto"
"""In place of a congestion control's name: it is to be chosen."""
HOST = "host"
"""The same: it is the host's default, and nothing is chosen."""
LEFT_TO_US = frozenset({"cubic", "reno"})
"""Defaults of hosts in whose place another may be chosen unasked; others somebody wanted."""
Rule: TypeAlias = Literal["worth", "tree"]
RULES: tuple[Rule, ...] = ("worth", "tree")
PASSIVE, ACTIVE = "passive", "active"
PROBES = (PASSIVE, ACTIVE)
PATTERN = "C5-B5-C5-S5"
"""The work's first. Recordings come along for its second, too: S5-C5-S5-B5."""
BAND_S = 10
"""The work's "max warping"; a value is a second's."""
FAIRNESS = 0.95
"""By default: where two are alike in fairness, what gets more."""
WEIR, KNN = "weir", "k-nn"
CLASSIFIERS = (WEIR, KNN)


class _Asked(NamedTuple):
    """How a path is probed and what is made of it; None is the default.

    Attributes:
        probe: `passive` or `active`.
        pattern: of active probing, which it asks for.
        classifier: `weir`, its own recogniser, or `k-nn`, the work's: the only one for active
            probing.
        neighbours: k of k-nn.
        band: warping window of k-nn, in s.
        window: of k-nn, how much is looked at.
        recordings: file that k-nn learns from.
        rule: `worth` or `tree`; k-nn has the work's tree unless it is said.
        udp: port of a responder there (`weir probe --serve`) that answers instead of ICMP.
    """

    probe: str | None = None
    pattern: str | None = None
    classifier: str | None = None
    neighbours: int | None = None
    band: int | None = None
    window: str | None = None
    recordings: str | None = None
    rule: Rule | None = None
    udp: int | None = None


class Request(_Asked):
    """What is asked for, without a contradiction.

    Raises:
        BadInput: there is one.
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """See the fields; None is the default."""
        asked = super().__new__(cls, *args, **named)
        asked._check()
        return asked

    def _check(self) -> None:
        """Refuses what contradicts itself; a pattern is read when the path is to be probed."""
        for name, value, possible in (
            ("probe", self.probe, PROBES),
            ("classifier", self.classifier, CLASSIFIERS),
            ("rule", self.rule, RULES),
        ):
            if value is not None and value not in possible:
                raise BadInput(f"{name} {value}: there are {' and '.join(possible)}")
        if self.udp is not None and not 1 <= self.udp <= 65_535:
            raise BadInput(f"udp {self.udp}: a port is needed, 1 to 65535")
        if self.probe == PASSIVE and self.pattern is not None:
            raise BadInput(f"pattern {self.pattern} is for active probing")
        if self.is_active and self.classifier == WEIR:
            raise BadInput(
                "classifier weir has learned passive probing alone; active probing has k-nn"
            )
        for name, least in (("neighbours", 1), ("band", 0)):
            count = getattr(self, name)
            if count is not None and count < least:
                raise BadInput(f"{name} {count}: it must be {least} or more")
        if self.is_knn:
            self.window_s()
        else:
            for name in ("neighbours", "band", "window", "recordings"):
                if getattr(self, name) is not None:
                    raise BadInput(f"{name} is for classifier k-nn")

    @property
    def is_active(self) -> bool:
        """Whether bursts are sent."""
        return self.probe == ACTIVE or self.pattern is not None

    @property
    def bursts(self) -> str | None:
        """The pattern, None for passive probing."""
        return (self.pattern or PATTERN) if self.is_active else None

    @property
    def how_chosen(self) -> Rule:
        """The rule."""
        return self.rule or ("tree" if self.is_knn else "worth")

    @property
    def is_knn(self) -> bool:
        """Whether k-nn tells who is there."""
        return self.is_active or self.classifier == KNN

    def window_s(self) -> int | None:
        """The length of k-nn's window, in s; None for its default."""
        if self.window is None:
            return None
        seconds, rest = divmod(Time(self.window).ns, 10**9)
        if rest or not seconds:
            raise BadInput(f"window {self.window}: whole seconds are needed, one at least")
        return seconds


def check_fairness(fairness: float) -> None:
    """Raises `BadInput` for what is no weight."""
    if not 0 <= fairness <= 1:
        raise BadInput(f"fairness {fairness:g}: 0 (own goodput only) to 1 (Jain's index only)")


def parse(texts: Mapping[str, str]) -> Request:
    """Options from texts by name; an empty text is the default."""
    values: dict[str, Any] = {name: text or None for name, text in texts.items()}
    for name in ("neighbours", "band", "udp"):
        if (text := values.get(name)) is not None:
            value = number(name, text)
            if value.denominator != 1:
                raise BadInput(f"{name} {text}: a whole number is needed")
            values[name] = int(value)
    return Request(**values)


NAMES = Request._fields
