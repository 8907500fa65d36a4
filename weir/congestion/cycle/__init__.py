"""The choice of a congestion control beside a transfer that runs; `cycle` is the face.

`lazily` loads the rest where it can gain something, `sender` is the transfer in its hands,
`settings` how to choose, `found` what is told of a choice. `beginning` sends at once and may find
nobody there, as `opening` tells from a silence. Else others are heard: beside the file's own stream
by `learning`, or in silence, for as long as `probing` says; `samples` brings the round-trip times.
`entering` takes a share among streams of CUBIC. While it sends on, `monitor` hears who comes and
goes, `change` and `room` read the kernel's counters, and `demand` says what a deadline takes.
"""
