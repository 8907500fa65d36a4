"""What is studied with Weir: demonstrations, training, and published results run again.

Nothing in `weir` imports this package. The command line finds its commands as entry points
(`weir.commands`, `weir.ops`).
"""
