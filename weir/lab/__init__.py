"""The lab: hosts as network namespaces, links by Weir's own emulator, on one machine.

    from weir.lab import Lab

    with Lab.up("scenarios/wan.toml") as lab:
        lab.run("S1", ["ping", "-c", "3", "D1"])

`Lab` is a lab that is up, a `Bridge` one of its switches; `load` and `parse` read a `Scenario` and
refuse what cannot be right.
"""

from weir.lab.lab import Lab
from weir.lab.reading import load, parse
from weir.lab.scenario import Scenario
from weir.lab.switches.bridge import Bridge

__all__ = ["Bridge", "Lab", "Scenario", "load", "parse"]
