"""Trials: a file sent beside known traffic of the kernel's own TCP in the lab.

`trial` carries one out, fixed control or chosen; `picture` draws some side by side.
"""

from studies.rig.trial.outcome import Outcome
from studies.rig.trial.trial import Trial, carry_out

__all__ = ["Outcome", "Trial", "carry_out"]
