"""The controller: what the calendar has decided is put into the switches, over OpenFlow.

`weir.control.core` decides and does no I/O: topology, allotments and what switches report go in,
messages come out. `weir.control.rules` says which rules are wanted, `weir.control.update` which
messages lead there without a packet that meets half a path. `weir.control.openflow` speaks
OpenFlow 1.3, `weir.control.serve` brings them together.
"""
