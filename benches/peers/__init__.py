"""How each file mover is run: one module per program, each a `Mover` or several.

Adding a peer is one class here and its name in `benches.mover.movers`.
"""
