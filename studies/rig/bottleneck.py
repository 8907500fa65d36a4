"""The lab of recordings and trials: two hosts, one emulated link, a background from near to far.

The hosts' own links, faster in the work, are left out, as in `studies.training.simulated`.
"""

from collections.abc import Sequence

from studies.rig.background import Stream
from weir.congestion.recordings import NetworkPath

NEAR, FAR, LINK = "near", "far", "bottleneck"


def scenario(
    name: str, path: NetworkPath, background: Sequence[Stream], seed: int, loss: float = 0.0
) -> str:
    """The scenario as TOML; labs that are up at the same time have different names.

    `loss` is the share of packets that the path loses at random on its way forward.
    """
    forward_ns = path.rtt_ns // 2
    lossy = f", loss = {loss}" if loss else ""
    lines = [
        f'[lab]\nname = "{name}"\nseed = {seed}\n',
        f"[hosts]\n{NEAR} = {{}}\n{FAR} = {{}}\n",
        f'[[link]]\nname = "{LINK}"\nends = ["{NEAR}", "{FAR}"]',
        f'rate = "{path.rate_bps} bit/s"',
        f'forward = {{ delay = "{forward_ns} ns"{lossy} }}',
        f'backward = {{ delay = "{path.rtt_ns - forward_ns} ns" }}',
        f'queue = {{ discipline = "{path.discipline}", limit = "{path.buffer_bytes} B" }}\n',
    ]
    for stream in background:
        keys = {"kind": stream.kind, "from": NEAR, "to": FAR, "start": f"{stream.start_ns} ns"}
        if stream.congestion:
            keys["congestion"] = stream.congestion
        words = [f'{key} = "{value}"' for key, value in (keys | dict(stream.keys)).items()]
        lines.append("\n".join(["[[traffic]]", *words, ""]))
    return "\n".join(lines)
