"""Trials: a file sent beside known traffic of the kernel's own TCP in the lab.

`trial` carries one out, fixed control or chosen; `picture` draws some side by side.
"""

from weir.ops.trial.outcome import Outcome
from weir.ops.trial.trial import Trial, carry_out

__all__ = ["Outcome", "Trial", "carry_out"]
