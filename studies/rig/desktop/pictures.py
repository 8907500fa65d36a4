"""What a test card shows: pictures of many colours, with the card's number in every tile.

A number of 12 bits stands in two blocks of each tile, as a colour of coarse steps, so that a codec
that changes colours a little does not change the number.
"""

import zlib
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Pixels: TypeAlias = NDArray[np.uint8]
"""Rows, columns, and blue, green, red and nothing, as an X server has them."""

TILE, _BLOCK = 32, 8
NUMBERS = 1 << 12
ROUGHNESS = (2.4, 2.1, 1.8, 1.6, 1.4, 1.2)
"""How steeply the spectra of the pictures fall: smooth ones compress well, rough ones do not."""


def picture(width: int, height: int, roughness: float, seed: int) -> Pixels:
    """Clouds of all colours, whose detail falls with frequency as in photographs."""
    random = np.random.default_rng(seed)
    down, right = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :]
    frequency = np.hypot(down, right)
    frequency[0, 0] = 1
    pixels = np.zeros((height, width, 4), np.uint8)
    for channel in range(3):
        spectrum = np.fft.rfft2(random.standard_normal((height, width))) / frequency**roughness
        spectrum[0, 0] = 0
        values = np.fft.irfft2(spectrum, (height, width))
        low, high = np.quantile(values, (0.01, 0.99))
        pixels[:, :, channel] = np.clip((values - low) / (high - low) * 255, 0, 255)
    return pixels


def stored(pixels: Pixels) -> bytes:
    """As it lies in memory until it is shown: to show it takes work, as it does with real files."""
    return zlib.compress(pixels.tobytes(), 1)


def unpacked(content: bytes, width: int, height: int) -> Pixels:
    """Back again, to be painted on."""
    flat = np.frombuffer(bytearray(zlib.decompress(content)), np.uint8)
    return flat.reshape(height, width, 4)


def stamp(pixels: Pixels, number: int) -> None:
    """Paints the number into both blocks of every tile."""
    colour = [16 * (number >> shift & 15) + 8 for shift in (0, 4, 8)]
    for corner in (0, TILE - _BLOCK):
        for down in range(_BLOCK):
            for right in range(_BLOCK):
                pixels[corner + down :: TILE, corner + right :: TILE, :3] = colour


def numbers(pixels: Pixels) -> NDArray[np.int64]:
    """The numbers in all tiles, in the middles of their blocks."""
    found = []
    for corner in (0, TILE - _BLOCK):
        middle = corner + _BLOCK // 2
        parts = pixels[middle::TILE, middle::TILE, :3].astype(np.int64) >> 4
        found.append(parts[..., 0] | parts[..., 1] << 4 | parts[..., 2] << 8)
    return np.concatenate([one.ravel() for one in found])
