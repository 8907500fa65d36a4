"""Rate and congestion control of a live transfer."""

import itertools
import os
import time

import pytest
from rig import told_by_ss
from transfer_world import poll

from weir import Rate, Time
from weir.errors import BadInput
from weir.transfer import Server, Transfer

MIB = 2**20


@pytest.fixture
def big(tmp_path):
    (tmp_path / "root").mkdir()
    source = tmp_path / "source"
    with source.open("wb") as file:
        for _ in range(320):
            file.write(os.urandom(4096) * 256)
    return source


def rate_mbps(transfer, seconds):
    """Mbit/s of durable bytes over a while."""
    before, began = transfer.progress().bytes_durable.count, time.monotonic()
    transfer.wait(Time(f"{seconds} s"))
    span = time.monotonic() - began
    return (transfer.progress().bytes_durable.count - before) * 8 / span / 1e6


@pytest.mark.parametrize("direction", ["send", "get"])
def test_a_new_rate_acts_within_200_ms_in_both_directions(tmp_path, big, measured, direction):
    with Server([tmp_path], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}".format(*server.address)
        choices = {"keys": None, "streams": 2, "rate": Rate("160 Mbit/s"), "congestion": "cubic"}
        names = (f"copy{number}" for number in itertools.count())

        def check():
            name = next(names)
            if direction == "send":
                transfer = Transfer.send([big], f"{place}/root/{name}", **choices)
            else:
                transfer = Transfer.get([f"{place}/source"], tmp_path / name, **choices)
            try:
                follows_its_rate(transfer)
            finally:
                transfer.cancel()

        measured(check)


def follows_its_rate(transfer):
    """Each rate is far enough from the one before it to be told from it at half of itself, which a
    busy machine's disk keeps up with, too; what nothing lifts it above is a finer bound."""
    transfer.start()
    poll(lambda: transfer.progress().bytes_durable.count > 10 * MIB)
    assert 80 < rate_mbps(transfer, 2) < 1.12 * 160
    for rate in (80, 240):
        transfer.set_rate(Rate(f"{rate} Mbit/s"))
        transfer.wait(Time("200 ms"))
        # Chunks of 1 MiB and reports every 50 ms bound how fine this can be seen.
        assert rate / 2 < rate_mbps(transfer, 2) < 1.12 * rate
    transfer.set_rate(Rate("0 bit/s"))
    transfer.wait(Time("500 ms"))
    assert rate_mbps(transfer, 0.5) < 20
    assert transfer.progress().state == "running"
    transfer.set_rate(None)
    assert transfer.wait(Time("60 s"))


def congestion_of(transfer):
    """What the kernel says of the live data connections, by `ss`."""
    found = set()
    for address, port, peer, peers_port in transfer.ports():
        shown = told_by_ss((address, port), (peer, peers_port))
        found.add(shown.split("\n")[1].split()[0])
    return found


def test_the_congestion_control_is_switched_on_the_live_sockets(tmp_path, big):
    with Server([tmp_path / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}".format(*server.address)
        transfer = Transfer.send(
            [big], f"{place}/", keys=None, streams=2, rate=Rate("400 Mbit/s"), congestion="cubic"
        )
        transfer.start()
        poll(lambda: transfer.progress().bytes_durable.count > MIB)
        ports = transfer.ports()
        assert len(ports) == 2
        assert congestion_of(transfer) == {"cubic"}
        transfer.set_congestion("reno")
        assert congestion_of(transfer) == {"reno"}
        assert transfer.ports() == ports
        with pytest.raises(BadInput, match="nonsense"):
            transfer.set_congestion("nonsense")
        assert congestion_of(transfer) == {"reno"}
        transfer.set_rate(None)
        assert transfer.wait(Time("60 s"))


def test_progress_is_monotonic_and_ends_at_the_total(tmp_path, big):
    with Server([tmp_path / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}".format(*server.address)
        transfer = Transfer.send([big], f"{place}/", keys=None)
        assert transfer.progress().state == "connecting"
        transfer.start()
        last = 0
        while not transfer.wait(Time("20 ms")):
            progress = transfer.progress()
            assert progress.bytes_durable.count >= last
            assert progress.bytes_done.count >= progress.bytes_durable.count
            last = progress.bytes_durable.count
        end = transfer.progress()
        assert end.state == "done" and end.error is None
        assert end.bytes_durable == end.bytes_total
        assert end.files_done == end.files_total == 1
        (settled,) = transfer.take_settled()
        assert settled.hash is not None and len(settled.hash) == 64
