"""Bookings inside one aggregate, and how near they are kept: `python -m studies.rig.booked`.

The line and the relays of `studies.rig.joined`. What is promised to client hosts the calendar's
enforcer (`weir.calendar.agents.weighing`) keeps by weights, while another host's clients send, too.
The server says what part of all arrives from each; the command fails where one is more than 1 % off
its promise.
"""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from studies.rig.joined import GROUPS, RATE_BPS, SCENARIO, Seen, join_words, split, take
from studies.rig.relayed import CLIENTS, SERVER, heard, join, program
from weir.calendar.agents.enforcer import Allotment, Pair
from weir.calendar.agents.weighing import Aggregate, Weigher
from weir.lab import Lab, parse

_PORT = 7600
# Weights are given after the clients have come, and what is in queues by then is from before.
_SETTLED_S = 8.0


def shares(
    promised: Sequence[float], booked: Sequence[int], others: int, seconds: float, seed: int
) -> list[float]:
    """What part of the content that arrives is each booked host's.

    Args:
        promised: to each, as a part of the line.
        booked: their connections.
        others: another host's connections.
        seconds: over which is counted.
        seed: of the lab.

    Raises:
        Unsupported: this machine has no labs.
        TransferFailed: a program ended before its time.
    """
    hosts = [f"booked{number}" for number in range(len(promised))]
    links = "".join(f'[[link]]\nends = ["{host}", "near"]\n' for host in hosts)
    text = SCENARIO.format(seed=seed) + links
    text = text.replace("[hosts]\n", "[hosts]\n" + "".join(f"{host} = {{}}\n" for host in hosts))
    scenario, seen = parse(text, "bookings"), Seen()
    with Lab.up(scenario) as lab, contextlib.ExitStack() as stack:
        server = stack.enter_context(program(lab, "server", SERVER, lab.address("server"), _PORT))
        heard(server)
        stack.enter_context(split(lab))
        asked = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "join"
        stack.enter_context(join(lab, "join", *join_words(lab, (1, 1)), control_at=asked))
        weigher = Weigher(Aggregate(asked, RATE_BPS))
        weigher.install()
        stack.callback(weigher.remove)
        pairs = [Pair(lab.address(host), lab.address("server"), _PORT) for host in hosts]
        told = (Allotment(int(part * RATE_BPS)) for part in promised)
        weigher.apply(dict(zip(pairs, told, strict=True)))
        ends = list(accumulate([*booked, others], initial=0))
        for host, part in zip([*hosts, GROUPS[0]], pairwise(ends), strict=True):
            words = (lab.address("join"), _PORT, *part)
            stack.enter_context(program(lab, host, CLIENTS, *words))
        end_s = _SETTLED_S + seconds
        while not seen.arrived or seen.arrived[-1][0] - seen.arrived[0][0] < end_s:
            take(seen, heard(server))
    _, counts = seen.within(_SETTLED_S, end_s)
    return [
        sum(counts.get(client, 0) for client in range(*part)) / sum(counts.values())
        for part in pairwise(ends[:-1])
    ]


def main() -> int:
    """Runs it; 1 if a promise was not kept within 1 %."""
    parser = argparse.ArgumentParser(description=__doc__)
    words = "as parts of the line, one for each host"
    parser.add_argument("--promised", type=float, nargs="+", default=[0.4], help=words)
    words = "its connections, one number for each host"
    parser.add_argument("--booked", type=int, nargs="+", default=[1], help=words)
    parser.add_argument("--others", type=int, default=3, help="connections of others")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if len(args.promised) != len(args.booked):
        parser.error("as many numbers of connections as promises are wanted")
    found = shares(args.promised, args.booked, args.others, args.seconds, args.seed)
    offs = [got / promised - 1 for got, promised in zip(found, args.promised, strict=True)]
    for got, promised, off in zip(found, args.promised, offs, strict=True):
        sys.stdout.write(f"{got:.4f} of what arrived, {promised:g} promised: {off:+.2%}\n")
    return 0 if all(abs(off) <= 0.01 for off in offs) else 1


if __name__ == "__main__":
    sys.exit(main())
