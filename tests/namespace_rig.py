"""A network namespace for one test, with a device in it."""

import ctypes
import os
import subprocess
import threading

import pytest


@pytest.fixture
def namespace():
    """Runs this test's thread in a fresh network namespace with the device wan0."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000) != 0:
        pytest.skip(f"no network namespace for this user: {os.strerror(ctypes.get_errno())}")
    tc("link", "add", "wan0", "type", "veth", "peer", "name", "lan0", program="ip")
    tc("link", "set", "wan0", "up", program="ip")
    yield
    assert threading.current_thread() is threading.main_thread()
    libc.setns(own, 0)
    os.close(own)


def tc(*arguments, program="tc"):
    return subprocess.check_output([program, *arguments], text=True)
