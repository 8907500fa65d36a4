"""What the mover is meant to reach, and whether kept results say that it does."""

from collections.abc import Sequence
from dataclasses import dataclass

from benches.harness import Row
from benches.mover import movers
from benches.peers.mover import Mover, Protection
from benches.peers.weir import Weir
from benches.testbed import BARE

SPEED, COST = "Mbit/s", "CPU s/GB"
_NOT_INTACT = "(not intact)"


@dataclass(frozen=True)
class Target:
    """A bound on Weir's ratio to each of some peers: at least for a speed, below for a cost."""

    words: str
    variant: str
    unit: str
    bound: float
    data: str = ""
    """What the setting's data must contain; all when empty."""
    link: str = ""
    """The setting's link; all when empty."""
    peers: frozenset[str] | None = None
    """Names of the peers; all intact ones when None."""

    def worst(self, rows: Sequence[Row]) -> Row | None:
        """The row that decides; None when the results have none that it is about."""
        own = [row for row in rows if row["unit"] == self.unit and self._covers(row)]
        if self.unit == SPEED:
            return min(own, key=_ratio, default=None)
        return max(own, key=_ratio, default=None)

    def holds(self, row: Row) -> bool:
        """Whether the deciding row is within the bound."""
        return _ratio(row) >= self.bound if self.unit == SPEED else _ratio(row) < self.bound

    def _covers(self, row: Row) -> bool:
        data, link, variant = row["metric"].split(", ", 2)
        peer = row["peer"] or ""
        return (
            self.data in data
            and self.link in ("", link)
            and variant == self.variant
            and (peer in self.peers if self.peers else _NOT_INTACT not in peer)
        )


def targets() -> list[Target]:
    """The targets of the mover's benchmark."""
    every = movers()
    off, hashed, tls = (_variant(kind, every) for kind in Protection)
    fast = "the fastest intact mover"
    scp, sftp = frozenset(["scp"]), frozenset(["rclone sftp"])
    return [
        _one(off, 0.9, fast),
        _one(hashed, 0.8, fast),
        _one(tls, 2, "scp", scp),
        _one(tls, 4, "rclone sftp", sftp),
        *(_cost(kind, every) for kind in Protection),
        *(_many(kind, every) for kind in Protection),
    ]


def _one(variant: str, bound: float, whom: str, peers: frozenset[str] | None = None) -> Target:
    words = f"{variant}: at least {bound:g} times {whom}, one file, bare veth"
    return Target(words, variant, SPEED, bound, data="one file", link=BARE, peers=peers)


def _cost(kind: Protection, every: list[Mover]) -> Target:
    variant = _variant(kind, every)
    peers = frozenset(mover.name for mover in every if mover.protection is kind)
    words = f"{variant}: less processor time than any of the same protection, everywhere"
    return Target(words, variant, COST, 1, peers=peers)


def _many(kind: Protection, every: list[Mover]) -> Target:
    variant = _variant(kind, every)
    words = f"{variant}: at least 3 times the best, many files, bare veth"
    return Target(words, variant, SPEED, 3, data="files of", link=BARE)


def _variant(kind: Protection, every: list[Mover]) -> str:
    """How rows name Weir with that protection."""
    ours = (mover for mover in every if isinstance(mover, Weir) and mover.protection is kind)
    return next(ours).name.removeprefix("Weir, ")


def _ratio(row: Row) -> float:
    return row["ratio"] or 0.0
