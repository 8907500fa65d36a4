"""One emulated link between two namespaces, in a process of its own so that its cost is its own.

`python -m benches.emulator_link CONFIG_JSON` says "up" and holds the link until its input ends.
"""

import sys

from weir._core import Emulator


def main() -> None:
    """Starts the link of the configuration in the first argument; ends with standard input."""
    emulator = Emulator(sys.argv[1])
    emulator.start()
    print("up", flush=True)
    sys.stdin.read()
    emulator.stop()


if __name__ == "__main__":
    main()
