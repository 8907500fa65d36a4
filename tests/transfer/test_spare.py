"""Connections of a lower class beside those that are paced at the promised rate."""

import os
import re

import pytest
from rig import told_by_ss, until

from weir import Bytes, Rate, Time
from weir.cli import main
from weir.errors import BadInput
from weir.transfer import PAUSED, YIELDING, Server, Spare, Transfer

MIB = 2**20
SIZE = 24 * MIB
# A chunk takes a second.
SLOW = Rate("8 Mbit/s")


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").write_bytes(os.urandom(SIZE))
    return tmp_path / "source"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "root").mkdir()
    with Server([tmp_path / "root"], listen="127.0.0.1:0", keys=None) as server:
        yield "{}:{}/copy".format(*server.address)


def classes(transfer):
    """The IP header's byte of each data connection, as iproute2 shows it."""
    shown = [
        told_by_ss((address, port), (peer, peers_port), "--tos")
        for address, port, peer, peers_port in transfer.ports()
    ]
    return [int(re.search(r"tos:(\w+)", text)[1], 16) for text in shown]


def controls(transfer):
    """The congestion control of each data connection, as iproute2 shows it."""
    shown = [told_by_ss(ports[:2], ports[2:]) for ports in transfer.ports()]
    return [text.split("\n")[1].split()[0] for text in shown]


def segments(transfer):
    """What a segment of each data connection carries, as iproute2 shows it."""
    shown = [told_by_ss(ports[:2], ports[2:]) for ports in transfer.ports()]
    return [int(re.search(r"\bmss:(\d+)", text)[1]) for text in shown]


@pytest.mark.parametrize("rate", [SLOW, PAUSED], ids=["slow", "paused"])
def test_what_the_rate_leaves_goes_by_spare_connections(tmp_path, source, place, rate):
    # So slow that the promised connection has its part also where others hold it up.
    spare = Spare("le", streams=2, rate=Rate("80 Mbit/s"))
    transfer = Transfer.send([source], place, keys=None, rate=rate, spare=spare)
    transfer.start()
    assert transfer.wait(Time("60 s"))
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()
    progress = transfer.progress()
    assert progress.bytes_done == progress.bytes_total == Bytes.from_count(SIZE)
    promised = progress.bytes_done.count - progress.bytes_spare.count
    assert promised == 0 if rate == PAUSED else 0 < promised < SIZE


@pytest.mark.parametrize(("service", "marked"), [("le", 1 << 2), ("cs1", 8 << 2)])
def test_only_spare_connections_are_of_the_lower_class(source, place, service, marked):
    spare = Spare(service, rate=Rate("4 Mbit/s"), congestion="reno")
    transfer = Transfer.send(
        [source], place, keys=None, rate=SLOW, streams=2, spare=spare, congestion="cubic"
    )
    transfer.start()
    try:
        until(lambda: len(transfer.ports()) == 3 and classes(transfer) == [0, 0, marked])
        # A connection is there before all is set that it is to have.
        until(lambda: controls(transfer) == ["cubic", "cubic", "reno"])
        assert len(transfer.tcp_info()) == 2
    finally:
        transfer.cancel()


def test_packets_of_spare_connections_may_be_smaller_than_the_paths(source, place):
    spare = Spare("le", rate=Rate("4 Mbit/s"), packet=Bytes("1500 B"))
    transfer = Transfer.send([source], place, keys=None, rate=SLOW, spare=spare)
    transfer.start()
    try:
        until(lambda: len(transfer.ports()) == 2)
        # Headers take 40 bytes, and timestamps 12.
        until(lambda: segments(transfer)[0] > 9000 and segments(transfer)[1] == 1448)
    finally:
        transfer.cancel()


def test_a_control_that_the_mover_runs_paces_spare_connections_only(tmp_path, source, place):
    spare = Spare("le", congestion=YIELDING)
    transfer = Transfer.send([source], place, keys=None, rate=SLOW, spare=spare)
    transfer.start()

    def is_paced():
        ports = transfer.ports()[1:]
        # What ss shows behind the slash is the bound that was set.
        shown = [told_by_ss(each[:2], each[2:]) for each in ports]
        return any(re.search(r"pacing_rate \w+/\w+", each) for each in shown)

    until(is_paced)
    assert transfer.wait(Time("60 s"))
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()
    assert transfer.progress().bytes_spare.count > 0


def test_spare_connections_take_nothing_while_their_rate_is_zero(source, place):
    spare = Spare("le", rate=PAUSED)
    transfer = Transfer.send([source], place, keys=None, rate=PAUSED, spare=spare)
    transfer.start()
    assert not transfer.wait(Time("1 s"))
    assert transfer.progress().state == "running"
    assert transfer.progress().bytes_done.count == 0
    transfer.set_spare_rate(None)
    assert transfer.wait(Time("60 s"))
    assert transfer.progress().bytes_spare.count == SIZE


def test_a_server_gets_no_more_connections_than_it_allows(source, place):
    spare = Spare("cs1", streams=10)
    transfer = Transfer.send([source], place, keys=None, streams=60, rate=SLOW, spare=spare)
    transfer.start()
    try:
        until(lambda: len(transfer.ports()) >= 64)
        assert not transfer.wait(Time("200 ms"))
        assert len(transfer.ports()) == 64
    finally:
        transfer.cancel()


def test_what_was_cut_resumes(tmp_path, source, place):
    choices = {"keys": None, "rate": SLOW, "spare": Spare("le", rate=Rate("40 Mbit/s"))}
    first = Transfer.send([source], place, **choices)
    first.start()
    until(lambda: first.progress().bytes_durable.count >= 4 * MIB)
    first.cancel()
    # The server may take its time to see that the first one has gone.
    second = Transfer.send([source], place, keys=None, retry=Time("60 s"))
    second.start()
    assert second.wait(Time("60 s"))
    assert second.progress().bytes_resumed.count >= 4 * MIB
    assert (tmp_path / "root" / "copy").read_bytes() == source.read_bytes()


def test_the_command_has_them_and_refuses_what_makes_no_sense(tmp_path, source, place, capsys):
    command = ["send", "--insecure", str(source), place]
    assert main([*command, "--rate", "8 Mbit/s", "--spare", "le", "--spare-streams", "2"]) == 0
    assert "in the lower class" in capsys.readouterr().err
    for options, said in (
        (["--spare", "ef"], "rate"),
        (["--rate", "1 Mbit/s", "--spare", "ef"], "le or cs1"),
        (["--rate", "1 Mbit/s", "--spare", "le", "--spare-streams", "0"], "1 to 63"),
        (["--rate", "1 Mbit/s", "--spare", "le", "--spare-cca", "nonsense"], "nonsense"),
        (["--rate", "1 Mbit/s", "--spare", "le", "--cca", "auto"], "auto"),
        (["--spare-rate", "1 Mbit/s"], "--spare"),
        (["--rate", "1 Mbit/s", "--spare", "le", "--spare-packet", "100 B"], "576 to 65535"),
    ):
        assert main([*command, *options]) == 2
        assert said in capsys.readouterr().err
    with pytest.raises(BadInput, match="sent from here"):
        Transfer.get([place], tmp_path / "got", keys=None, rate=SLOW, spare=Spare())
