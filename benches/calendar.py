"""The calendar: decisions per second of the engine alone, and latency of the REST service."""

from typing import Any

from benches.calendar_engine import engine_rows
from benches.calendar_rest import rest_rows


def run() -> list[dict[str, Any]]:
    """Engine first: it is what the service can at best be."""
    return engine_rows() + rest_rows()
