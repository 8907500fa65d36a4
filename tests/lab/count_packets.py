"""Counts the UDP packets that reach this host, by the kernel's counter and this machine's clock.

usage: count_packets.py PORT  (inside a node). On each line of standard input it prints a JSON
`[time_s, packets]`. Its socket refuses every packet, so that counting costs nothing; the clock
is read on both sides of the counter and the pair is taken again if anything came between.
"""

import json
import socket
import sys
import time

from weir.lab.traffic import packets_refused, refuse_every_packet

_APART_S = 100e-6


def main():
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    refuse_every_packet(sink)
    sink.bind(("", int(sys.argv[1])))
    print("ready", flush=True)
    for _ in sys.stdin:
        while True:
            before = time.monotonic()
            packets = packets_refused(sink)
            after = time.monotonic()
            if after - before < _APART_S:
                break
        print(json.dumps([(before + after) / 2, packets]), flush=True)


if __name__ == "__main__":
    main()
