"""From requests and reports to decisions, without clock, disk or network; `planner` is the face."""
