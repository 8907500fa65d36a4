"""`weir doctor`: what this machine allows, and what each missing thing disables."""

import argparse
import json
from dataclasses import asdict

from weir.cli import output
from weir.doctor import examine
from weir.terminal import beside


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.epilog = "exit code 0 whatever is missing; the answer is in the output."
    parser.add_argument("--json", action="store_true", help="print JSON for machines")


def run(args: argparse.Namespace) -> int:
    """Prints each finding as soon as it is known."""
    output.is_the_work()
    if args.json:
        print(json.dumps([asdict(finding) for finding in examine()], indent=2))
        return 0
    for finding in examine():
        print(
            beside(f"{'ok     ' if finding.ok else 'MISSING'}  {finding.name:20} ", finding.found)
        )
        if not finding.ok:
            print(beside(f"{'':30}disables: ", finding.disables))
    return 0
