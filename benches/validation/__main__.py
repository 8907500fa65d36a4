"""The same long TCP flows in Weir's packet simulator, in ns-3 and on the kernel's own TCP.

    python -m benches.validation --world WORLD [--runs N] [--parallel N] [CASE…]

Every result is kept in `docs/validation/WORLD.json`, and `docs/validation-appendix.md` is written
from them. A case that is there already is not run again; remove the file to begin anew.
"""

import argparse
import dataclasses
import json
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from benches.validation import kernel, ns3, page, weir
from benches.validation.case import CASES, Case, Result
from weir.errors import BadInput, WeirError

FOLDER = Path("docs/validation")
WORLDS: dict[str, Callable[[Case, int], Result]] = {
    "weir": weir.run,
    "weir-offload": partial(weir.run, offload=True),
    "ns3": ns3.run,
    "kernel": kernel.run,
}


def main(argv: Sequence[str]) -> int:
    """Runs what is missing, then writes the page; returns the exit code of `weir.errors`."""
    parser = argparse.ArgumentParser(prog="benches.validation", description=__doc__)
    parser.add_argument("--world", choices=sorted(WORLDS), action="append", default=[])
    parser.add_argument("--runs", type=int, default=3, help="runs of each case, with seeds 1, 2 …")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("cases", metavar="CASE", nargs="*", help="names; all if none is given")
    args = parser.parse_args(argv)
    try:
        cases = [case for case in CASES if not args.cases or case.name in args.cases]
        if unknown := set(args.cases) - {case.name for case in cases}:
            raise BadInput(f"no case is called {', '.join(sorted(unknown))}")
        for world in args.world:
            _run(world, cases, args.runs, args.parallel)
        page.write(FOLDER, Path("docs/validation-appendix.md"))
    except WeirError as error:
        print(f"benches.validation: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(world: str, cases: Sequence[Case], runs: int, parallel: int) -> None:
    path = FOLDER / f"{world}.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    lock = threading.Lock()

    def one(case: Case, seed: int) -> None:
        result = dataclasses.asdict(WORLDS[world](case, seed))
        with lock:
            results.setdefault(case.name, {})[str(seed)] = result
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
            print(f"{world}: {case.name}, run {seed}", flush=True)

    wanted = [
        (case, seed)
        for seed in range(1, runs + 1)
        for case in cases
        if str(seed) not in results.get(case.name, {})
        and (world != "ns3" or case.queue in ns3.QUEUES)
    ]
    with ThreadPoolExecutor(parallel) as pool:
        failed = 0
        for task in [pool.submit(one, *each) for each in wanted]:
            if error := task.exception():
                print(f"benches.validation: {world}: {error}", file=sys.stderr)
                failed += 1
    if failed:
        raise WeirError(f"{failed} of {len(wanted)} runs in {world} failed; run it again")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
