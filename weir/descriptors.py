"""How many files and connections a process may have open."""

import resource


def raise_limit() -> int:
    """Allows this process as many open files as it may have; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
