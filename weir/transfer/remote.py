"""How places at servers are told from paths, by the way they are written."""

import re

_REMOTE = re.compile(r"(\[[^/]+\]|[^/:]+):\d+(/|$)")


def is_remote(named: str) -> bool:
    """Whether it is `HOST:PORT/PATH`; a path that looks like that is written `./HOST:PORT/PATH`."""
    return _REMOTE.match(named) is not None
