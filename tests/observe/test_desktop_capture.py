"""Captures are read whatever wrote them, and bad ones are named."""

import shutil
import struct
import subprocess
import sys
import threading
import time
from ipaddress import ip_address

import pytest
from capture_rig import (
    CLIENT,
    KEEPER,
    SERVER,
    enhanced,
    interface,
    ip,
    pcap,
    raw,
    section,
    tcp,
    udp,
    whole,
)

from weir.errors import BadInput
from weir.observe.desktop import capture, mark
from weir.observe.desktop.dut import tasks

AT = 1_700_000_000_123_456_789


def read(tmp_path, content):
    path = tmp_path / "some.pcap"
    path.write_bytes(content)
    return capture.read(path)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("unit_ns", [1, 1000])
def test_a_pcap_of_either_order_and_resolution(tmp_path, order, unit_ns):
    found = read(tmp_path, pcap([raw(AT, tcp(1000, 7))], order=order, unit_ns=unit_ns))
    (one,) = found.packets
    assert one.at_ns == AT - AT % unit_ns
    assert (one.size, one.length, one.sequence) == (1054, 1000, 7)
    assert (str(one.source), str(one.destination), one.ports) == (SERVER, CLIENT, (5901, 40000))
    assert not found.cut


@pytest.mark.parametrize(
    ("link", "head"),
    [
        (1, bytes(12) + b"\x08\x00"),
        (1, bytes(12) + b"\x81\x00\x00\x07\x08\x00"),
        (101, b""),
        (228, b""),
        (113, bytes(14) + b"\x08\x00"),
        (276, b"\x08\x00" + bytes(18)),
        (0, b"\x02\x00\x00\x00"),
    ],
    ids=["ethernet", "vlan", "raw", "ipv4", "cooked", "cooked-2", "loopback"],
)
def test_a_packet_has_the_size_of_an_ethernet_frame_whatever_the_link(tmp_path, link, head):
    packet = tcp(1000)
    found = read(tmp_path, pcap([(AT, head + packet, len(head) + whole(packet))], link))
    tags = 4 if len(head) == 18 else 0
    assert [one.size for one in found.packets] == [1054 + tags]


def test_a_pcapng_with_its_own_resolutions_and_interfaces(tmp_path):
    # Option 9 is the resolution, here 2**-20 s; option 14 an offset in s.
    fine = struct.pack("<HHB3x", 9, 1, 0x80 | 20) + struct.pack("<HHq", 14, 8, 1000)
    packet = tcp(500)
    content = section() + interface() + interface(options=fine)
    content += enhanced(AT // 1000, packet, whole(packet), 0)
    content += enhanced(3 << 19, packet, whole(packet), 1)
    found = read(tmp_path, content)
    assert [one.at_ns for one in found.packets] == [1_001_500_000_000, AT // 1000 * 1000]


def test_a_pcapng_whose_second_section_has_the_other_order(tmp_path):
    packet = tcp(500)
    content = section() + interface() + enhanced(5, packet, whole(packet))
    content += section(">") + interface(order=">") + enhanced(9, packet, whole(packet), order=">")
    assert [one.at_ns for one in read(tmp_path, content).packets] == [5000, 9000]


def test_ipv6_behind_its_extensions(tmp_path):
    inner = struct.pack(">HHHxx", 1, 5300, 18) + b"weir-start"
    options = bytes([17, 0, 1, 4, 0, 0, 0, 0])
    head = struct.pack(">IHBB", 6 << 28, len(options) + len(inner), 0, 64)
    ends = ip_address("fe80::1").packed + ip_address("fe80::2").packed
    packet = head + ends + options + inner
    (one,) = read(tmp_path, pcap([(AT, packet, len(packet))])).packets
    assert (one.protocol, one.ports, one.payload) == (17, (1, 5300), b"weir-start")
    assert one.size == len(packet) + 14


def test_a_fragment_has_no_ports_and_counts(tmp_path):
    packet = bytearray(udp(b"x" * 100))
    packet[6:8] = b"\x00\x20"
    (one,) = read(tmp_path, pcap([raw(AT, bytes(packet))])).packets
    assert (one.ports, one.size) == ((0, 0), 142)


def test_what_stands_before_the_cut_is_kept_and_the_cut_is_told(tmp_path):
    good = pcap([raw(AT, tcp(10)), raw(AT + 5, tcp(20))])
    for less in range(1, 56):
        found = read(tmp_path, good[:-less])
        assert [one.length for one in found.packets] == [10]
        assert "ends in the middle" in found.cut


def test_a_damaged_length_ends_what_is_read(tmp_path):
    content = pcap([raw(AT, tcp(10))]) + struct.pack("<IIII", 1, 1, 0xFFFFFFFF, 5)
    found = read(tmp_path, content)
    assert len(found.packets) == 1
    assert "damaged" in found.cut


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"\x1f\x8b\x08\x00", "it is compressed"),
        (b"%PDF-1.4", "neither pcap nor pcapng"),
        (pcap([], link=105), "link type 105"),
        (pcap([]), "no IP packets"),
        (pcap([(1, bytes(12) + b"\x08\x06" + bytes(28), 42)], 1), "but 1 others"),
        (pcap([(1, b"\x45\x00", 60)]), "no whole IP header was kept"),
        (section() + enhanced(1, b"", 0), "no interface"),
        (section() + interface() + struct.pack("<II", 6, 3), "a block of 3 bytes"),
    ],
)
def test_what_is_no_good_capture_says_why(tmp_path, content, words):
    with pytest.raises(BadInput, match=words):
        read(tmp_path, content)


def test_who_sends_most(tmp_path):
    packets = [raw(1, tcp(100)), raw(2, tcp(10, source=CLIENT, destination=SERVER))]
    assert read(tmp_path, pcap(packets)).busiest() == (ip_address(SERVER), ip_address(CLIENT))


def test_a_tunnel_is_told_by_protocol_or_port(tmp_path):
    assert read(tmp_path, pcap([raw(1, ip(bytes(900), 50))])).tunnel() == "ESP (IPsec)"
    assert read(tmp_path, pcap([raw(1, udp(bytes(900), 51820))])).tunnel() == "WireGuard"
    assert read(tmp_path, pcap([raw(1, tcp(900))])).tunnel() is None


@pytest.mark.skipif(not shutil.which("tcpdump"), reason="tcpdump is not installed")
def test_tcpdump_reads_our_capture_as_we_do(tmp_path):
    packets = [raw(AT, tcp(1000, 7)), raw(AT + 10**6, udp(b"weir-start a"))]
    (tmp_path / "some.pcap").write_bytes(pcap(packets))
    command = ["tcpdump", "-nn", "-tt", "-r", tmp_path / "some.pcap"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert f"{SERVER}.5901 > {CLIENT}.40000" in said[0]
    assert "length 1000" in said[0]
    assert f"{SERVER}.4000 > {KEEPER}.5300: UDP, length 12" in said[1]


def test_a_marker_is_recorded_and_read_back(tmp_path):
    path = tmp_path / "live.pcap"
    command = [sys.executable, "-m", "weir.cli", "observe", "desktop", "record", "lo"]
    with subprocess.Popen([*command, "--out", path], stderr=subprocess.PIPE, text=True) as tap:
        end = time.monotonic() + 60
        while not (path.exists() and path.stat().st_size):
            if tap.poll() is not None and "CAP_NET_RAW" in tap.stderr.read():
                pytest.skip("this user may not capture")
            assert tap.poll() is None
            assert time.monotonic() < end
            threading.Event().wait(0.02)
        before = time.time_ns()
        mark.send("127.0.0.1", label="open", port=5377)
        mark.send("127.0.0.1", is_end=True, port=5377)
        after = time.time_ns()
        tap.terminate()
        assert tap.wait(30) == 0
    # Once, though the loopback interface shows a packet as it goes and as it comes.
    (found,) = tasks(capture.read(path).packets, 5377)
    assert found.label == "open"
    assert before <= found.begin_ns <= found.end_ns <= after
