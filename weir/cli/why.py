"""`weir why`: why a transfer waits, was refused, was slowed or will be late, in words."""

import argparse
import json

from weir.cli import output
from weir.cli.calendar_client import client_options, opened
from weir.format import mbit_s

SUMMARY = "why a transfer waits, was refused, was slowed or will be late, in words"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.add_argument(
        "id",
        nargs="?",
        metavar="ID|KEY",
        help="the id of a transfer or refused request, or your key for it (default: last refusal)",
    )
    client_options(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the answer, who else is on the link, what would change it, and what happened."""
    output.is_the_work()
    with opened(args) as client:
        answer = client.why(args.id)
    if args.json:
        print(json.dumps(answer))
        return 0
    print(f"{answer['id']} ({answer['state']}): {answer['answer']}")
    if answer["link_text"]:
        print(answer["link_text"])
    for other in answer["others"]:
        print(
            f"  {other['id']} of {other['owner']}: {mbit_s(other['rate_bps'])} now, "
            f"admitted {other['admitted']}, due {other['deadline']}"
        )
    if answer["others_count"] > len(answer["others"]):
        print(f"  and {answer['others_count'] - len(answer['others'])} more")
    for remedy in answer["remedies"]:
        print(f"what would change it: {remedy}")
    for moment in answer["story"]:
        print(f"{moment['at']}  {moment['text']}")
    return 0
