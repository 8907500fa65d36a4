"""Work 004: low latency in games, web and video."""
