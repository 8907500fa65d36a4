"""The doctor says what it saw by trying, and what each missing thing disables."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from rig import WEIR


def test_every_finding_has_a_name_an_outcome_and_what_it_disables(weir):
    done = weir("doctor", "--json")
    assert done.returncode == 0, done.stderr
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert {"namespaces", "TUN devices", "congestion controls", "HTB"} <= set(findings)
    assert {"BPF struct_ops", "Open vSwitch", "real-time priority", "CPU head-room"} <= set(
        findings
    )
    assert all(finding["found"] and finding["disables"] for finding in findings.values())
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    assert f"the default is {default}" in findings["congestion controls"]["found"]


def test_a_machine_without_tun_is_found_out_by_trying():
    if os.geteuid() != 0:
        pytest.skip("hiding /dev/net needs root")
    hide = 'mount -t tmpfs none /dev/net && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", hide, "sh", WEIR, "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    missing = next(i for i, line in enumerate(lines) if line.startswith("MISSING  TUN devices"))
    assert lines[missing + 1].strip() == "disables: the links of weir lab, weir run"
    emulated = next(line for line in lines if "emulated links" in line)
    assert emulated.startswith("MISSING") and "/dev/net/tun" in emulated
