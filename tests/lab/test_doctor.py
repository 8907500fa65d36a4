"""The doctor says what it saw by trying, and what each missing thing disables."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from rig import WEIR

from weir import doctor


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


PORT = "ports/1/link_layer"


@pytest.mark.parametrize(
    ("adapters", "device", "ok", "found"),
    [
        ({}, True, False, "no adapter"),
        ({"mlx5_0": "Ethernet"}, True, False, "no adapter"),
        ({"mlx5_0": "InfiniBand"}, False, False, "mlx5_0/1: no "),
        ({"mlx5_0": "Ethernet", "mlx5_1": "InfiniBand"}, True, True, "ports: mlx5_1/1"),
    ],
)
def test_infiniband_is_there_where_a_port_can_be_asked(
    tmp_path, monkeypatch, adapters, device, ok, found
):
    """The library and the program alone ask nobody."""
    for name, layer in adapters.items():
        (tmp_path / name / PORT).parent.mkdir(parents=True)
        (tmp_path / name / PORT).write_text(f"{layer}\n")
    devices = tmp_path / "devices"
    devices.mkdir()
    if device:
        (devices / "umad0").touch()
    monkeypatch.setattr(doctor.counter_files, "ROOT", tmp_path)
    monkeypatch.setattr(doctor, "_UMAD", devices)
    monkeypatch.setattr(doctor.umad, "lacking", lambda: None)
    monkeypatch.setattr(doctor.discovery, "program", lambda: "ibnetdiscover")
    said = doctor._infiniband()
    assert said[0] is ok
    assert found in said[1]


@pytest.mark.parametrize(
    ("runtime", "period", "ok", "found"),
    [
        ("950000", "1000000", True, "for 95 % of the time"),
        ("50000", "100000", True, "for 50 % of the time"),
        ("-1", "1000000", True, "for all of the time"),
        ("0", "1000000", False, "for none of the time"),
        (None, None, True, "SCHED_FIFO is permitted"),
    ],
)
def test_the_share_of_real_time_is_that_of_the_period(
    tmp_path, monkeypatch, runtime, period, ok, found
):
    for name, value in (("runtime", runtime), ("period", period)):
        if value is not None:
            (tmp_path / f"sched_rt_{name}_us").write_text(f"{value}\n")
    monkeypatch.setattr(doctor, "_SCHED", tmp_path)
    monkeypatch.setattr(doctor.os, "sched_setscheduler", lambda *_: None)
    said = doctor._realtime()
    assert said[0] is ok
    assert said[1].endswith(found) or found in said[1]


def test_processors_that_the_control_group_may_not_use_are_not_there(tmp_path, monkeypatch):
    own = [line for line in Path("/proc/self/cgroup").read_text().splitlines() if line[0] == "0"]
    if not own:
        pytest.skip("there is no control group of version 2")
    group = tmp_path / own[0].partition("::")[2].lstrip("/")
    group.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(doctor, "_GROUPS", tmp_path)
    monkeypatch.setattr(doctor, "_CPU_SAMPLE_S", 0.01)
    assert "cpu.max" not in doctor._cpu()[1]
    (group / "cpu.max").write_text("50000 100000\n")
    ok, found = doctor._cpu()
    assert not ok
    assert found.endswith("this control group may use 0.5 (cpu.max)")
