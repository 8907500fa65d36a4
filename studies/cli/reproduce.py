"""`weir reproduce`: published results, run again and shown beside what was printed."""

import argparse

SUMMARY = "published results, run again and shown beside what was printed"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.epilog = "exit code 1 if a result differs from what was published."
    parser.add_argument(
        "id", nargs="*", metavar="ID", help="tables and figures to run (default: all)"
    )
    parser.add_argument(
        "--list", action="store_true", help="list what is known of each and run none"
    )
    parser.add_argument("--quick", action="store_true", help="reduced size")
    parser.add_argument(
        "--json", action="store_true", help="print a list of JSON objects, one a row"
    )
    parser.add_argument(
        "--scheduler", metavar="URL", help="a Dask cluster's address: tcp://HOST:PORT"
    )
    parser.add_argument(
        "--workers", metavar="N", type=int, help="worker processes (default: one a core)"
    )
    parser.add_argument(
        "--cache", metavar="DIR", help="where results are kept (default: ~/.cache/weir/reproduce)"
    )
    parser.add_argument(
        "--out", metavar="DIR", default="out/reproduce", help="folder for results and plots"
    )
    parser.add_argument("--page", metavar="DIR", help="also take results into the page in DIR")


def run(args: argparse.Namespace) -> int:
    """Runs or lists; 1 if a row differs from what was published, else what an error says."""
    # Only here, so that `weir --help` need not wait for every study.
    from studies.reproduction.command import carry_out

    return carry_out(args)
