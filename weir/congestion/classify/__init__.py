"""Recognising who is on a path from its round-trip times (work 001, chapters 5 and 6)."""
