"""Commands of `weir` that studies bring along, found as entry points."""
