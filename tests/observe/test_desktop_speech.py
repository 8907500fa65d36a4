"""Measures of speech against closed forms, and against other programs by numbers they gave."""

import itertools
import json
import math
import wave
from pathlib import Path

import numpy as np
import pytest

from studies.rig.desktop import call
from weir.cli import main
from weir.errors import BadInput
from weir.observe.desktop import speech

RATE = call.RATE
SAID = call.speech("female", 3.0, 1)
REFERENCE = Path(__file__).parent / "speech_reference.json"


def noisy(decibel, seed=5):
    noise = np.random.default_rng(seed).standard_normal(len(SAID))
    return SAID + noise * np.sqrt(np.mean(SAID**2)) * 10 ** (-decibel / 20)


def test_the_same_is_perfect():
    found = speech.quality(SAID, SAID, RATE)
    assert (found.wss, found.llr) == (0, 0)
    assert (found.nsim, found.score) == (pytest.approx(1), pytest.approx(5, abs=1e-4))


def test_louder_and_later_is_the_same():
    later = np.concatenate([np.zeros(1234), 0.5 * SAID])
    found = speech.quality(SAID, later, RATE)
    assert found.llr == pytest.approx(0, abs=1e-4)
    assert found.wss == pytest.approx(0, abs=1e-6)
    assert found.nsim == pytest.approx(1, abs=1e-6)


def test_what_begins_too_early_is_shifted_back():
    early = SAID[500:]
    found = speech.aligned(SAID, early, RATE)
    assert len(found) == len(SAID)
    assert np.allclose(found[500:], SAID[500:])


def test_more_noise_is_worse_by_every_measure():
    found = [speech.quality(SAID, noisy(decibel), RATE) for decibel in (40, 25, 10, 0)]
    for better, worse in itertools.pairwise(found):
        assert better.wss < worse.wss
        assert better.llr < worse.llr
        assert better.nsim > worse.nsim
        assert better.score > worse.score


def test_llr_of_known_filters_is_the_closed_form():
    """Long frames of an AR(1) process with a and white noise: log((1) / (1 - a^2))."""
    a, random = 0.8, np.random.default_rng(3)
    noise = random.standard_normal(200_000)
    process = np.zeros_like(noise)
    for at in range(1, len(noise)):
        process[at] = a * process[at - 1] + noise[at]
    white = random.standard_normal(len(noise))
    found = speech.llr(process, white, 100_000)  # frames of 3 000 samples
    assert found == pytest.approx(math.log(1 / (1 - a**2)), rel=0.05)


def test_wss_of_a_tilt_that_is_the_same_in_all_bands():
    """Levels that rise by the same from band to band: the distance is that slope's square."""
    levels = np.tile(np.arange(25.0), (4, 1))
    slopes = np.diff(levels)
    flat = np.zeros_like(levels)
    weights = speech._slope_weights(levels, slopes) + speech._slope_weights(flat, np.diff(flat))
    distance = np.sum(weights * slopes**2, axis=1) / np.sum(weights, axis=1)
    assert distance == pytest.approx(np.ones(4))


def test_slopes_near_the_highest_peak_count_most():
    levels = np.array([[0.0, 30, 0, 0, 0, 10] + [0.0] * 19])
    weights = speech._slope_weights(levels, np.diff(levels))
    assert weights.argmax() == 1
    assert weights[0, 1] == pytest.approx(20 / 20 * 1 / (1 + levels[0, 1] - 30))


@pytest.mark.parametrize(
    "case", json.loads(REFERENCE.read_text())["cases"] if REFERENCE.exists() else []
)
def test_distances_are_those_of_another_program(case):
    degraded = noisy(case["decibel"])
    assert speech.wss(SAID, degraded, RATE) == pytest.approx(case["wss"], rel=1e-6)
    assert speech.llr(SAID, degraded, RATE) == pytest.approx(case["llr"], rel=1e-6)


def test_the_score_falls_with_loss_as_visqols_does():
    """Like it, not it: the order is the same, and so are the falls within a tenth of the scale."""
    cases = json.loads(REFERENCE.read_text())["calls"]
    ours, theirs = [], [one["visqol"] for one in cases]
    for one in cases:
        packets = -(-len(SAID) // call.PACKET)
        degraded = call.heard(SAID, call.losses(packets, one["loss"], 1))
        ours.append(speech.quality(SAID, degraded, RATE).score)
    assert np.argsort(ours).tolist() == np.argsort(theirs).tolist()
    assert np.corrcoef(ours, theirs)[0, 1] > 0.97


def test_lost_packets_are_heard_as_what_came_before_them():
    said = np.concatenate([np.full(call.PACKET, 0.5), np.full(call.PACKET, -0.5)])
    out = call.heard(said, [False, True])
    assert out[: call.PACKET] == pytest.approx(0.5, abs=0.02)
    assert out[call.PACKET :] == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize(
    ("clean", "rate", "words"),
    [
        (np.zeros(100), RATE, "shorter than a frame|too short"),
        (np.zeros(RATE), 4000, "needs 8000"),
    ],
)
def test_what_tells_nothing_is_refused(clean, rate, words):
    with pytest.raises(BadInput, match=words):
        speech.quality(clean, clean, rate)


def test_silence_tells_nothing():
    quiet = np.zeros(RATE)
    quiet[:2000] = SAID[4000:6000]
    with pytest.raises(BadInput, match="without speech"):
        speech.nsim(quiet, quiet, RATE)


def write(path, samples, rate=RATE, width=2):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return str(path)


def test_the_command_reads_wav(tmp_path, capsys):
    clean, heard = write(tmp_path / "a.wav", SAID), write(tmp_path / "b.wav", noisy(20) * 0.5)
    assert main(["observe", "desktop", "speech", clean, heard, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    expected = speech.quality(SAID, noisy(20), RATE)
    assert said["wss"] == pytest.approx(expected.wss, rel=0.01)
    assert said["score"] == pytest.approx(expected.score, rel=0.01)


def test_wrong_files_are_named(tmp_path, capsys):
    clean = write(tmp_path / "a.wav", SAID)
    other = write(tmp_path / "b.wav", SAID, 8000)
    narrow = write(tmp_path / "c.wav", SAID, width=1)
    (tmp_path / "d.wav").write_bytes(b"RIFFxxxxWAVE")
    for second, words in (
        (other, "16000 samples a second"),
        (narrow, "samples of 8 bits"),
        (str(tmp_path / "d.wav"), "no WAV file"),
        (str(tmp_path / "e.wav"), "No such file"),
    ):
        assert main(["observe", "desktop", "speech", clean, second]) == 2
        assert words in capsys.readouterr().err
