"""`python -m weir.cli`: the command line where the console script is not on the path."""

import sys

from weir.cli import main

sys.exit(main())
