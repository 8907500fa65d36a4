"""The sender of a trial whose control has a timetable: see `studies.rig.trial.timetable`."""

import sys

from studies.rig.trial.timetable import main

sys.exit(main())
