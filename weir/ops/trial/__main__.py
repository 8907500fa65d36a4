"""The sender of a trial whose control has a timetable: see `weir.ops.trial.timetable`."""

import sys

from weir.ops.trial.timetable import main

sys.exit(main())
