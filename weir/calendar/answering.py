"""How long an answer of the calendar takes at most, as who answers and who asks agree on it.

Who gave up first would say "timed out", and never hear why.
"""

ANSWERED_S = 15.0
"""So long the service waits for a store that does not answer; then it says so (503)."""
ASKED_S = ANSWERED_S + 6.0
"""So long clients and agents wait: an agent may be asked first, and what is said be on its way."""
