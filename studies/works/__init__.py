"""Published tables and figures, a folder for each work and files for each of its chapters.

The id of a row gives its place: `004-fig-3.6` is in `w004/ch3_*.py`. `row` says what a row is: one
published result, the independent runs that obtain ours (points), and the function that compares.
Nothing is compared by hand: the verdict is computed from our value and the stated tolerance.
`measured` keeps what hosts gave.
"""
