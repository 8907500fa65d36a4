"""Weir's controller, told by its standard input how many pairs are allotted.

    python -m benches.peers.weir_controller NETWORK PORT

Each line is a number: so many pairs between 10.0.0.1 and 10.0.0.2 have 1 Mbit/s each.
"""

import asyncio
import sys
from pathlib import Path

from weir.calendar.agents.enforcer import Allotment, Pair
from weir.calendar.network import load_network
from weir.control.core import Core
from weir.control.enforcer import SwitchEnforcer
from weir.control.openflow import Switches

FIRST_PORT = 7411


async def serve(network: Path, port: int) -> None:
    """Until the standard input ends."""
    core = Core(load_network(network))
    switches = Switches(core, print)
    enforcer = SwitchEnforcer(core, switches.pump)
    await switches.listen(f"127.0.0.1:{port}")
    running = asyncio.create_task(switches.run())
    enforcer.apply({})
    while line := await asyncio.to_thread(sys.stdin.readline):
        ports = range(FIRST_PORT, FIRST_PORT + int(line))
        enforcer.apply({Pair("10.0.0.1", "10.0.0.2", x): Allotment(10**6) for x in ports})
    running.cancel()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
