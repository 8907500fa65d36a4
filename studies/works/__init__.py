"""Published tables and figures, a folder for each work and files for each of its chapters.

The id of a row gives its place: `004-fig-3.6` is in `w004/ch3_*.py`.
"""
