"""Switches of a lab that is up: Open vSwitch in userspace, one set of daemons for each switch."""

from weir.lab.switches.bridge import Bridge
from weir.lab.switches.daemons import missing
from weir.lab.switches.switches import Switches

__all__ = ["Bridge", "Switches", "missing"]
