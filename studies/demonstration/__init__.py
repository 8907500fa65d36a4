"""The demonstration behind `weir run`: the same files with a calendar and without, side by side.

`delivery_plan` reads what is to be carried, `halves` brings up the lab and carries it out twice,
`run_state` is what is known meanwhile, `view` shows it, and `studies.demonstration.report` makes
the page of the result.
"""
