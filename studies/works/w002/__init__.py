"""Work 002: flows with deadlines in data centres."""
