"""The packet simulator: a lab's scenario in simulated time, every packet.

from weir.lab import load
from weir.sim import simulate

result = simulate(load("scenarios/wan.toml"))
print(result["flows"][0]["goodput_bps"])
"""

from weir.sim.run import Run, simulate

__all__ = ["Run", "simulate"]
