"""Which congestion control suits whoever is on the path: recognised, chosen, changed in time.

`classify` says who is there, `choice` what suits them, `path` what the path does to our packets.
`cycle` does all that beside a transfer, `shell` step by step in a person's hands. What may be asked
of them is in `options`.
"""
