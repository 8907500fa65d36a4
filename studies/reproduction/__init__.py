"""Published tables and figures, run again and shown beside what was printed.

A row names one published result, the independent runs that obtain ours (points), and the function
that compares. Nothing is compared by hand: the verdict is computed from our value and the stated
tolerance. `catalogue` knows all rows, `obtain` runs them, `measured` keeps what hosts gave, `page`
writes docs/reproduction.md. Rows import this package, so it imports none of them here.
"""
