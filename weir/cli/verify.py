"""`weir verify`: whether two places hold the same, by the hashes of their files."""

import argparse
import json

from weir.errors import TransferFailed
from weir.format import counted, size
from weir.printable import path_facts, printable
from weir.transfer import DEFAULT_KEYS, verify

_EPILOG = """\
A place is a path or HOST:PORT/REMOTE/PATH. Each end hashes what it has; nothing is moved. Names,
kinds and contents are compared, not times, permissions and owners.

exit codes: 0 the same; 2 a wrong argument; 4 refused; 5 different, each difference on a line; 6 a
place cannot be reached."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("source", help="what should be there, as given to weir send or get")
    parser.add_argument("destination", help="where it should be")
    parser.add_argument(
        "--copy-links", action="store_true", help="compare what symbolic links lead to"
    )
    parser.add_argument("--json", action="store_true", help="one JSON event per line")
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--keys", metavar="DIR", default=str(DEFAULT_KEYS), help="key directory")
    keys.add_argument("--insecure", action="store_true", help="no TLS, no authentication")


def run(args: argparse.Namespace) -> int:
    """Compares; an error if they differ."""
    keys = None if args.insecure else args.keys
    places = (verify.Place(one, keys, args.copy_links) for one in (args.source, args.destination))
    first, one, second, other = verify.read_both(*places)
    count = 0
    for difference in verify.differences(one, other):
        count += 1
        _tell(difference, args.json)
    files, total = (one.files, one.size.count) if one else (0, 0)
    if args.json:
        facts = {"source": first.named, "destination": second.named, "differences": count}
        facts |= {"files": files, "size_bytes": total}
        print(json.dumps({"event": "done", **facts}), flush=True)
    if count:
        error = TransferFailed(
            f"{second.named} is not {first.named}: {counted(count, 'difference')}"
        )
        error.is_told = args.json
        raise error
    if not args.json:
        print(f"the same: {counted(files, 'file')}, {size(total)}, in {printable(second.named)}")
    return 0


def _tell(difference: verify.Difference, as_json: bool) -> None:
    place = path_facts(difference.path)
    if as_json:
        facts = {**place, "what": difference.what, "message": difference.words}
        print(json.dumps({"event": "difference", **facts}), flush=True)
    else:
        path = place["path"]
        named = "" if path is None else f"{printable(path)}: "
        print(f"{named}{printable(difference.words)}", flush=True)
