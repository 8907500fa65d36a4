"""Switches of a lab that is up: Open vSwitch in userspace, one set of daemons for each switch."""

from weir.lab.switches.bridge import Bridge
from weir.lab.switches.daemons import Daemons, missing

__all__ = ["Bridge", "Daemons", "missing"]
