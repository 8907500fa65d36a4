"""What a supervisor is launched with; it crosses from the caller's process to the supervisor's."""

from dataclasses import dataclass

from weir.lab.scenario import Scenario

TAKEN = b"taken\n"
"""What the caller says when it has the answer; without it the lab would be up for nobody."""


@dataclass(frozen=True)
class Launch:
    """The lab that a supervisor is to bring up.

    Attributes:
        scenario: the lab.
        name: its name; with `exact`, a lab of that name that is up is an error, otherwise a
            number is put behind.
        exact: see `name`.
        detached: whether the lab outlives the process that asked for it.
    """

    scenario: Scenario
    name: str
    exact: bool
    detached: bool
