"""Which congestion control suits whoever is on the path: probing, recognising, choosing."""
