"""A booking inside one aggregate, and how near it is kept: `python -m studies.rig.booked`.

The line and the relays of `studies.rig.joined`. What is promised to one client host the calendar's
enforcer (`weir.calendar.agents.weighing`) keeps by weights, while another host's clients send, too.
The server says what part of all arrives from the first; the command fails where that is more than
1 % off the promise.
"""

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from studies.rig.joined import GROUPS, RATE_BPS, SCENARIO, Seen, join_words, split, take
from studies.rig.relayed import CLIENTS, SERVER, heard, join, program
from weir.calendar.agents.enforcer import Allotment, Pair
from weir.calendar.agents.weighing import Aggregate, Weigher
from weir.lab import Lab, parse

_PORT = 7600
# Weights are given after the clients have come, and what is in queues by then is from before.
_SETTLED_S = 8.0


def share(promised: float, booked: int, others: int, seconds: float, seed: int) -> float:
    """What part of the content that arrives is the booked host's.

    Args:
        promised: to it, as a part of the line.
        booked: its connections.
        others: the other host's connections.
        seconds: over which is counted.
        seed: of the lab.

    Raises:
        Unsupported: this machine has no labs.
        TransferFailed: a program ended before its time.
    """
    scenario, seen = parse(SCENARIO.format(seed=seed), "a booking"), Seen()
    with Lab.up(scenario) as lab, contextlib.ExitStack() as stack:
        server = stack.enter_context(program(lab, "server", SERVER, lab.address("server"), _PORT))
        heard(server)
        stack.enter_context(split(lab))
        asked = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "join"
        stack.enter_context(join(lab, "join", *join_words(lab, (1, 1)), control_at=asked))
        weigher = Weigher(Aggregate(asked, RATE_BPS))
        weigher.install()
        stack.callback(weigher.remove)
        pair = Pair(lab.address(GROUPS[0]), lab.address("server"), _PORT)
        weigher.apply({pair: Allotment(int(promised * RATE_BPS))})
        parts = ((0, booked), (booked, booked + others))
        for host, part in zip(GROUPS, parts, strict=True):
            words = (lab.address("join"), _PORT, *part)
            stack.enter_context(program(lab, host, CLIENTS, *words))
        end_s = _SETTLED_S + seconds
        while not seen.arrived or seen.arrived[-1][0] - seen.arrived[0][0] < end_s:
            take(seen, heard(server))
    _, counts = seen.within(_SETTLED_S, end_s)
    mine = sum(count for client, count in counts.items() if client < booked)
    return mine / sum(counts.values())


def main() -> int:
    """Runs it; 1 if the promise was not kept within 1 %."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--promised", type=float, default=0.4, help="as a part of the line")
    parser.add_argument("--booked", type=int, default=1, help="its connections")
    parser.add_argument("--others", type=int, default=3, help="connections of others")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    found = share(args.promised, args.booked, args.others, args.seconds, args.seed)
    off = found / args.promised - 1
    told = f"{found:.4f} of what arrived, {args.promised:g} promised: {off:+.2%}\n"
    sys.stdout.write(told)
    return 0 if abs(off) <= 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
