"""How long a sweep of all ports of a dump takes: `python -m studies.rig.swept DUMP TIMES`.

Within a fabric (`studies.rig.ibsim`). Prints an object a sweep, then one with the last counters.
"""

import sys
import time
from pathlib import Path

from studies.rig.output import write_json
from weir.observe.infiniband import dump
from weir.observe.infiniband.asking import ports_of
from weir.observe.infiniband.umad import Umad


def main() -> None:
    """Sweeps; the first one asks every port for its tick, too."""
    ports = [port for port in ports_of(dump.load(Path(sys.argv[1]))) if port.is_up]
    with Umad() as fabric:
        for _ in range(1 + int(sys.argv[2])):
            begin = time.monotonic()
            answers = fabric.ask(ports)
            write_json({"took_s": time.monotonic() - begin})
    pairs = zip(ports, answers, strict=True)
    write_json({"counters": [(port.lid, port.number, answer.wait_ticks) for port, answer in pairs]})


if __name__ == "__main__":
    main()
