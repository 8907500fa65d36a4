"""Flows that the controller joins.

A client's first packet comes here, and is let go when relays and switches know of its flow (work
003, 2.4 and 2.5). `core` decides, `steering` has the rules, `relays` asks.
"""
