"""The demonstration behind `weir run`: the same files with a calendar and without, side by side.

`plan` reads what is to be carried, `run` brings up the lab and carries it out twice, `board` is
what is known meanwhile, `view` shows it, and `studies.demonstration.report` makes the page of the
result.
"""
