"""`python -m benches [NAME...]`: runs the named benchmarks (all without a name)."""

import sys

from benches.harness import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
