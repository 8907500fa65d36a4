"""Open vSwitch with its dummy datapath: the rule engine of production, without root or packets."""

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from control_rig import ports

from weir.lab.switches import missing

_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
PATIENCE_S = 60.0


class Ovs:
    """Daemons in a folder of their own, with a bridge for every switch of a network."""

    def __init__(self, folder):
        self.folder = folder
        folders = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        self.env = os.environ | {"PATH": _PATH} | dict.fromkeys(folders, str(folder))
        self.daemons = []
        self.run("ovsdb-tool", "create", f"{folder}/conf.db", str(_SCHEMA))
        self.database = self.spawn(
            "ovsdb-server", f"{folder}/conf.db", f"--remote=punix:{folder}/db.sock"
        )
        self.await_file("db.sock")
        self.datapath = None
        self.start()

    def start(self):
        """Starts the datapath's daemon, which has no rules."""
        self.datapath = self.spawn(
            "ovs-vswitchd", f"unix:{self.folder}/db.sock", "--enable-dummy=override",
            "--disable-system", f"--unixctl={self.folder}/vswitchd.ctl",
        )  # fmt: skip
        self.await_file("vswitchd.ctl")

    def kill(self):
        """The datapath's daemon is gone at once, with all rules."""
        self.datapath.kill()
        self.datapath.wait()
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "vswitchd.ctl").unlink()

    def stop(self):
        """Ends both."""
        for daemon in self.daemons:
            if daemon.poll() is None:
                daemon.kill()
                daemon.wait()

    def spawn(self, *argv):
        argv = [*argv, "-vconsole:off"]
        daemon = subprocess.Popen(argv, env=self.env, stdout=subprocess.DEVNULL)
        self.daemons.append(daemon)
        return daemon

    def run(self, *argv):
        """What a command says; it must succeed."""
        done = subprocess.run(
            argv, env=self.env, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout

    def await_file(self, name):
        deadline = time.monotonic() + PATIENCE_S
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline, f"no {name}"
            time.sleep(0.01)

    def build(self, network, controller):
        """The bridges of a network's switches, joined as its links say."""
        words = ["ovs-vsctl", f"--db=unix:{self.folder}/db.sock"]
        for switch, datapath in network.datapaths.items():
            words += ["--", "add-br", switch, "--", "set", "Bridge", switch]
            words += ["datapath_type=dummy", "fail_mode=secure", "protocols=OpenFlow13"]
            words += [f"other-config:datapath-id={datapath:016x}"]
            words += ["--", "set-controller", switch, controller]
            words += ["--", "set", "Controller", switch, "max_backoff=1000"]
        for link in network.links.values():
            if link.source not in network.datapaths:
                continue
            port = link.source_port
            words += ["--", "add-port", link.source, port, "--", "set", "Interface", port]
            words += [f"ofport_request={ports(network, link.source)[port]}"]
            if link.target in network.datapaths:
                words += ["type=patch", f"options:peer={link.target_port}"]
            else:
                words += ["type=dummy", f"options:tx_pcap={self.folder}/{port}.pcap"]
        self.run(*words)

    def flows(self, switch):
        """What a switch does, by another reader than ours."""
        said = self.run("ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", switch)
        return [line.strip() for line in said.splitlines() if "actions=" in line]

    def trace(self, switch, flow):
        """What becomes of a packet, told by the switch."""
        control = f"{self.folder}/vswitchd.ctl"
        return self.run("ovs-appctl", "-t", control, "ofproto/trace", switch, flow)


@pytest.fixture
def ovs(tmp_path):
    """Open vSwitch for one test."""
    if lacking := missing():
        pytest.skip(f"a dummy datapath needs {lacking}")
    # Paths of sockets are short.
    folder = Path("/tmp") / f"weir-ovs-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    daemons = Ovs(folder)
    yield daemons
    daemons.stop()
    shutil.rmtree(folder)
