"""Published tables and figures, run again and shown beside what was printed.

`catalogue` knows all rows of `studies.works`, `obtain` runs them, `page` writes
docs/reproduction.md.
"""
