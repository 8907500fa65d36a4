"""Servers for the tests of the mover."""

from pathlib import Path

import pytest
from transfer_world import Serve


@pytest.fixture
def serve():
    """Starts servers; all are stopped at the end."""
    started: list[Serve] = []

    def start(*arguments: str | Path, **options) -> Serve:
        started.append(Serve(*map(str, arguments), **options))
        return started[-1]

    yield start
    for server in started:
        server.stop()
