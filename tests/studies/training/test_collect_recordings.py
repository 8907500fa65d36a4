"""Files of recordings: what is written is read, and nothing else is."""

import contextlib
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.congestion import recordings
from weir.congestion.recordings import FORMAT, NetworkPath, Recording, load, load_whole, save
from weir.errors import BadInput

PATH = NetworkPath(500_000_000, 65_000_000, 6 * 2**20, "fifo")

ODD = NetworkPath(123_456_789, 10_000_001, 1_234_567, "pie")


def recording(**changes):
    """Three samples beside a CUBIC stream, the second without a reply."""
    values = {
        "label": "B0-C1",
        "source": "kernel",
        "path": PATH,
        "pattern": None,
        "seed": 7,
        "rate_hz": 20.0,
        "requests": 2,
        "rtt_ms": np.array([65.001, np.nan, 165.7]),
        "lost": np.array([0, 2, 1]),
        "background_bps": (480_000_000,),
        "made": {"kernel": "6.1", "late_us": [1, 2.5]},
    }
    return Recording(**values | changes)


@pytest.fixture
def file(tmp_path):
    """A file of one recording."""
    save(tmp_path / "some.npz", [recording()], {"weir": "1"})
    return tmp_path / "some.npz"


def test_what_is_saved_is_loaded(tmp_path):
    first = recording()
    other = recording(label="B0-C0", pattern="C5-S5", rtt_ms=np.array([]), lost=np.array([]))
    save(tmp_path / "two.npz", [first, other], {"weir": "0.1.0", "asked": {"seconds": 3}})
    (one, two), provenance = load_whole(tmp_path / "two.npz")
    assert provenance == {"weir": "0.1.0", "asked": {"seconds": 3}}
    np.testing.assert_array_equal(one.rtt_ms, first.rtt_ms)
    assert one.lost.tolist() == [0, 2, 1]
    assert one.rtt_ms.dtype == np.float64
    assert one.lost.dtype == np.int64
    assert one.seconds == pytest.approx(0.15)
    for name in ("label", "source", "path", "pattern", "seed", "rate_hz", "requests"):
        assert getattr(one, name) == getattr(first, name)
    for name in ("background_bps", "flaws", "made"):
        assert getattr(one, name) == getattr(first, name)
    assert (two.label, two.pattern, len(two.rtt_ms)) == ("B0-C0", "C5-S5", 0)


def test_times_are_kept_to_the_microsecond(tmp_path):
    times = np.random.default_rng(1).uniform(0.01, 400, 1000)
    save(tmp_path / "a.npz", [recording(rtt_ms=times, lost=np.zeros(1000, dtype=int))], {})
    (one,) = load(tmp_path / "a.npz")
    assert np.abs(one.rtt_ms - times).max() <= 0.0005 + 1e-9


def test_a_flawed_recording_is_given_to_those_only_who_ask(tmp_path):
    save(tmp_path / "a.npz", [recording(flaws=("stream 1 died",)), recording(seed=8)], {})
    assert [one.seed for one in load(tmp_path / "a.npz")] == [8]
    assert [one.flaws for one in load(tmp_path / "a.npz", flawed=True)] == [("stream 1 died",), ()]


def test_no_recordings_are_a_file_too(tmp_path):
    save(tmp_path / "a.npz", [], {"weir": "1"})
    assert load_whole(tmp_path / "a.npz") == ([], {"weir": "1"})


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"nowhere.*No such file"):
        save(tmp_path / "nowhere/a.npz", [recording()], {})
    with pytest.raises(BadInput, match="as many of each"):
        save(tmp_path / "a.npz", [recording(lost=np.array([0]))], {})


def test_paths_are_told_in_their_units():
    assert str(PATH) == "500 Mbit/s, 65 ms, 6 MiB, fifo"
    assert str(NetworkPath(10**6, 1_500_000, 12_345, "codel")) == "1 Mbit/s, 1.5 ms, 12345 B, codel"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("500 Mbit/s, 65 ms, 6 MiB", PATH),
        ("500 Mbit/s,65 ms,6 MiB,fifo", PATH),
        (str(PATH), PATH),
        (str(ODD), ODD),
        ("100 Mbit/s, 40 ms, 1.5 BDP, codel", NetworkPath(10**8, 40_000_000, 750_000, "codel")),
    ],
)
def test_paths_are_read(text, path):
    assert NetworkPath.parse(text) == path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("500 Mbit/s, 65 ms", "rate, round-trip time, buffer and perhaps"),
        ("500 Mbit/s, 65 ms, , fifo", "rate, round-trip time, buffer and perhaps"),
        ("500, 65 ms, 6 MiB", "500"),
        ("500 Mbit/s, 65 ms, x BDP", "a buffer of 'x BDP'"),
        ("500 Mbit/s, 65 ms, 1/0 BDP", "a buffer of '1/0 BDP'"),
        ("500 Mbit/s, 65 ms, 0 BDP", "above 0"),
        ("500 Mbit/s, 65 ms, -1 BDP", "above 0"),
    ],
)
def test_what_is_no_path_is_refused(text, why):
    with pytest.raises(BadInput, match=why):
        NetworkPath.parse(text)


def rewritten(file, **arrays):
    """The file with some arrays replaced, or left out if None."""
    with np.load(file) as content:
        all_of_it = {name: content[name] for name in content.files} | arrays
    np.savez(file, **{name: array for name, array in all_of_it.items() if array is not None})


def header_of(file):
    with np.load(file) as content:
        return json.loads(content["header"].tobytes())


def with_header(file, header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    rewritten(file, header=np.frombuffer(text, dtype=np.uint8))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rtt_us": None}, "no array rtt_us"),
        ({"rtt_us": np.zeros(3)}, "array rtt_us has float64"),
        ({"rtt_us": np.zeros((3, 1), dtype=np.int32)}, r"of shape \(3, 1\)"),
        ({"rtt_us": np.zeros(4, dtype=np.int32)}, "3 samples are said, 4 are there"),
        ({"rtt_us": np.full(3, -2, dtype=np.int32)}, "below zero"),
        ({"lost": np.zeros(2, dtype=np.uint16)}, "3 samples are said"),
        ({"header": np.array([b"pickled"], dtype=object)}, "array header has object"),
        ({"header": np.frombuffer(b"{}", dtype=np.uint8)}, "KeyError"),
        ({"header": np.frombuffer(b"[1]", dtype=np.uint8)}, "TypeError"),
        ({"header": np.frombuffer(b"\xff\x00", dtype=np.uint8)}, "its header"),
        ({"header": np.frombuffer(b"[" * 100_000, dtype=np.uint8)}, "its header"),
    ],
)
def test_a_file_with_a_wrong_array_is_refused(file, change, why):
    rewritten(file, **change)
    with pytest.raises(BadInput, match=rf"some.npz is not a file of recordings: .*{why}"):
        load(file)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"label": 3}, "label 3: text"),
        ({"source": "dream"}, "'dream'; simulator and kernel"),
        ({"pattern": []}, r"pattern \[\]: text"),
        ({"seed": -1}, "seed -1"),
        ({"seed": True}, "seed True"),
        ({"rate_hz": 0}, "rate_hz 0"),
        ({"rate_hz": "20"}, "rate_hz '20'"),
        ({"requests": 1.5}, "requests 1.5"),
        ({"samples": -3}, "samples -3"),
        ({"path": {"rate_bps": 1}}, "TypeError"),
        ({"path": {"rate_bps": 1, "rtt_ns": "x", "buffer_bytes": 1}}, "rtt_ns 'x'"),
        ({"path": None}, "TypeError"),
        ({"flaws": [3]}, "flaw 3"),
        ({"background_bps": ["fast"]}, "rate 'fast'"),
        ({"made": 1}, "made is not"),
        ({"colour": "blue"}, "TypeError"),
    ],
)
def test_a_file_whose_header_has_a_wrong_value_is_refused(file, change, why):
    header = header_of(file)
    header["recordings"][0] |= change
    with_header(file, header)
    with pytest.raises(BadInput, match=rf"some.npz is not a file of recordings: .*{why}"):
        load(file)


def test_a_file_of_another_format_is_refused(file):
    with_header(file, header_of(file) | {"format": FORMAT + 1})
    with pytest.raises(BadInput, match=f"it has format {FORMAT + 1}; {FORMAT} is read here"):
        load(file)


def test_a_file_that_would_fill_the_memory_is_refused(file, monkeypatch):
    # A header that promises 2^40 numbers, and an archive that unpacks to more than it should.
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    padded = b"(3,), }" + 12 * b" "
    promising = members["lost.npy"].replace(padded, b"(%d,), }" % 2**40)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in (members | {"lost.npy": promising}).items():
            archive.writestr(name, content)
    with pytest.raises(BadInput, match="array lost has 6 bytes of 2199023255552"):
        load(file)
    monkeypatch.setattr(recordings, "_UNPACKED_MAX_BYTES", 2**20)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lost.npy", bytes(2**20 + 1))
    with pytest.raises(BadInput, match="more than 1048576 bytes"):
        load(file)


def test_files_that_are_no_archives_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"missing.npz: No such file"):
        load(tmp_path / "missing.npz")
    with pytest.raises(BadInput, match="Is a directory"):
        load(tmp_path)
    (tmp_path / "text.npz").write_text("rtt,lost\n1,2\n")
    with pytest.raises(BadInput, match="not a file of recordings: File is not a zip file"):
        load(tmp_path / "text.npz")


@given(st.data())
def test_a_file_with_any_byte_wrong_is_read_or_refused_and_does_not_panic(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("fuzz") / "some.npz"
    save(file, [recording()], {"weir": "1"})
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)) | st.just(len(content)))
    file.write_bytes(content[:cut])
    with contextlib.suppress(BadInput):
        load(file)
