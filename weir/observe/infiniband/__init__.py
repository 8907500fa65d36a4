"""How long the ports of an InfiniBand fabric wait for credits (docs/fabric.md; work 000, 2).

`collect` asks ports for their counter of waiting, through `umad` (a fabric), `counter_files` (this
host) or `simulated` (Weir's own), and `watched` looks at the fabric again when that changes;
`records` keeps the answers, `waiting` makes them into shares of time, `statistics` into what they
say by kind of switch, which `dump`, `roles` and `plan` know.
"""
