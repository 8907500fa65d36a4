"""What the tests of every part share: patience with a machine that others use as well."""

import signal

import hypothesis
import pytest

# A shell that runs this in the background has SIGINT ignored, and programs that are started hand
# that on: Ctrl-C would mean nothing to them.
signal.signal(signal.SIGINT, signal.default_int_handler)

# An example that took long says something of the machine; the same examples on every one.
hypothesis.settings.register_profile(
    "weir",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("weir")


@pytest.fixture(autouse=True)
def _signals_as_they_were():
    """What holds back a signal here would hold it back in every program that is started later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    assert signal.pthread_sigmask(signal.SIG_SETMASK, before) == before


@pytest.fixture
def measured():
    """A function that measures again while a check fails: `measured(check)`, at most three times.

    For what other work on the machine can spoil but never mend: a rate that is not reached, a
    time that is exceeded. A product that does not keep the bound fails every time. Where a few per
    cent or parts of a millisecond count, `pytest.mark.alone` keeps our own tests away as well.
    """

    def measure(check, times=3):
        for _ in range(times - 1):
            try:
                return check()
            except AssertionError as error:
                print(f"measuring again: {error}")
        return check()

    return measure
