"""What both halves stand on: the lab that is up, the files to send, and where they arrive."""

from dataclasses import dataclass
from pathlib import Path

from studies.demonstration.delivery_plan import Plan, Transfer
from weir.lab import Lab


@dataclass(frozen=True)
class RunPaths:
    """Where both halves run: a lab, and a folder in which every host has its own.

    Attributes:
        plan: what is carried out.
        lab: up, with its background traffic.
        folder: of the run; one folder per host below it.
        digests: SHA-256 of every source file by the transfer's id.
    """

    plan: Plan
    lab: Lab
    folder: Path
    digests: dict[str, str]

    @property
    def keys(self) -> Path:
        """The folder of the keys that senders and receivers know each other by."""
        return self.folder / "keys"

    @property
    def sources(self) -> list[str]:
        """The hosts that send, each once."""
        return list(dict.fromkeys(item.source for item in self.plan.transfers))

    @property
    def destinations(self) -> list[str]:
        """The hosts that receive, each once."""
        return list(dict.fromkeys(item.destination for item in self.plan.transfers))

    def root(self, host: str) -> Path:
        """The folder of a host's files, which its server or agent is confined to."""
        return root(self.folder, host)

    def outgoing(self, transfer: Transfer) -> Path:
        """A transfer's file at its source."""
        return outgoing(self.folder, transfer)

    def incoming(self, half: str, transfer: Transfer) -> Path:
        """Where a transfer's file stands once it has arrived in a half."""
        return self.root(transfer.destination) / half / f"{transfer.id}.bin"

    def transfer(self, id: str) -> Transfer:
        """The transfer of that id."""
        return next(item for item in self.plan.transfers if item.id == id)


def root(folder: Path, host: str) -> Path:
    """The folder of a host's files below the run's folder."""
    return folder / "hosts" / host


def outgoing(folder: Path, transfer: Transfer) -> Path:
    """A transfer's file at its source, below the run's folder."""
    return root(folder, transfer.source) / "outgoing" / f"{transfer.id}.bin"
