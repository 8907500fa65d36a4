"""A call over a line that loses packets: what is said, how it travels, what is heard.

Speech is made by a synthesiser, so that nobody's voice is needed: harmonics of a pitch under
resonances that move, hissing between them, and pauses. It travels as G.711 does: 20 ms a packet, 8
bits a sample on mu-law's scale, and a lost packet is replaced by what was heard before it, fading.
"""

from collections.abc import Sequence

import numpy as np

from weir.observe.desktop.speech import Samples

RATE = 16_000
PACKET = RATE // 50
"""Samples of a packet: 20 ms."""
VOICES = {"male": 110.0, "female": 205.0}
"""Pitch in Hz."""
# Resonances of five vowels in Hz (Peterson and Barney 1952, men).
_VOWELS = (
    (730, 1090, 2440),
    (530, 1840, 2480),
    (270, 2290, 3010),
    (570, 840, 2410),
    (300, 870, 2240),
)
_WIDTHS = (90, 110, 160)
_SYLLABLE_S, _MU = 0.24, 255
_FADE = 0.6
"""How loud a repetition is beside what it repeats."""


def speech(voice: str, seconds: float, seed: int) -> Samples:
    """What is said, from -1 to 1."""
    random = np.random.default_rng([seed, *voice.encode()])
    pitch = VOICES[voice]
    count = round(seconds * RATE)
    at = np.arange(count) / RATE
    syllables = round(seconds / _SYLLABLE_S) + 2
    places = np.arange(syllables) * _SYLLABLE_S
    vowels = np.array([_VOWELS[one] for one in random.integers(0, len(_VOWELS), syllables)], float)
    loud = random.uniform(0.5, 1.0, syllables) * (random.random(syllables) > 0.15)
    level = np.interp(at, places, loud) * (0.35 + 0.65 * np.sin(np.pi * at / _SYLLABLE_S) ** 2)
    tune = pitch * (1 + 0.12 * np.interp(at, places, random.uniform(-1, 1, syllables)))
    phase = 2 * np.pi * np.cumsum(tune) / RATE
    resonances = [np.interp(at, places, vowels[:, one]) for one in range(3)]
    voiced = np.zeros(count)
    for harmonic in range(1, int(4500 / pitch)):
        hertz = harmonic * tune
        strength = sum(
            (width / 2) ** 2 / ((hertz - centre) ** 2 + (width / 2) ** 2)
            for centre, width in zip(resonances, _WIDTHS, strict=True)
        )
        voiced += (strength + 0.01) / harmonic**0.5 * np.sin(harmonic * phase)
    hiss = np.diff(random.standard_normal(count + 1)) * (level < 0.3) * level
    said = level * voiced / np.abs(voiced).max() + 0.05 * hiss
    spoken: Samples = 0.7 * said / np.abs(said).max()
    return spoken


def heard(said: Samples, lost: Sequence[bool]) -> Samples:
    """What arrives of speech when these of its packets are lost."""
    scale = np.log1p(_MU * np.abs(said)) / np.log1p(_MU)
    coded = np.sign(said) * np.rint(scale * 127) / 127
    decoded = np.sign(coded) * np.expm1(np.abs(coded) * np.log1p(_MU)) / _MU
    out = np.zeros(len(decoded))
    before, strength = np.zeros(PACKET), 1.0
    for begin in range(0, len(decoded), PACKET):
        if lost[begin // PACKET]:
            strength *= _FADE
            out[begin : begin + PACKET] = (strength * before)[: len(out) - begin]
        else:
            strength = 1.0
            part = decoded[begin : begin + PACKET]
            out[begin : begin + PACKET] = part
            before = np.pad(part, (0, PACKET - len(part)))
    return out


def losses(packets: int, probability: float, seed: int) -> list[bool]:
    """Which packets are lost, each by itself."""
    drawn = np.random.default_rng([seed, 77]).random(packets) < probability
    return [bool(one) for one in drawn]
