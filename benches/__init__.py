"""Benchmarks of Weir against its peers: `make bench`, or `python -m benches [NAME...]`.

A benchmark is a module of this folder with `run() -> list[dict]`; each row of the list is made
by `benches.harness.row`. How the figures are taken: docs/performance-appendix.md.
"""
