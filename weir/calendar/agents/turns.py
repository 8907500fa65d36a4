"""Whom an agent's next report names: whoever has news, and the others in turn."""

from collections.abc import Callable
from typing import Generic, TypeVar

# Transfers without news in one report. A host with hundreds under way would else have the
# calendar do little but write that each is where it was expected.
TURN_MAX = 100

Job = TypeVar("Job")


class Turns(Generic[Job]):
    """What is under way by its id, whoever was reported longest ago first."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}

    def next(self, has_news: Callable[[Job], bool]) -> list[str]:
        """The ids for the next report; the others' turn comes before theirs does again."""
        chosen, others = [], 0
        for identifier, job in self.jobs.items():
            if has_news(job):
                chosen.append(identifier)
            elif others < TURN_MAX:
                others += 1
                chosen.append(identifier)
        for identifier in chosen:
            self.jobs[identifier] = self.jobs.pop(identifier)
        return chosen
