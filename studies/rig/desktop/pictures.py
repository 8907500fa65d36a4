"""What a test card shows: pictures of many colours, with the card's number in every tile.

A number of four octal digits stands in the corners of each tile as greys of coarse steps, so that a
codec that changes colours a little does not change the number.
"""

import zlib
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Pixels: TypeAlias = NDArray[np.uint8]
"""Rows, columns, and blue, green, red and nothing, as an X server has them."""

TILE, _BLOCK = 32, 8
_CORNERS = ((0, 0), (0, TILE - _BLOCK), (TILE - _BLOCK, 0), (TILE - _BLOCK, TILE - _BLOCK))
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
    """Paints the number into the four corners of every tile."""
    for place, (down, right) in enumerate(_CORNERS):
        # Every corner changes with the number's lowest digit: an old one is told from a new one.
        digit = (number >> 3 * place) + (number if place else 0) & 7
        for row in range(_BLOCK):
            for column in range(_BLOCK):
                pixels[down + row :: TILE, right + column :: TILE, :3] = 32 * digit + 16


def numbers(pixels: Pixels) -> NDArray[np.int64]:
    """The number in each tile, by the means of its corners; if these differ, another one.

    A codec may leave a single pixel wrong by more than half a step for as long as nothing changes
    there, but hardly the mean of a block: that is what it codes first.
    """
    rows, columns = pixels.shape[0] // TILE, pixels.shape[1] // TILE
    green = pixels[: rows * TILE, : columns * TILE, 1].reshape(rows, TILE, columns, TILE)
    low, *others = (
        green[:, down : down + _BLOCK, :, right : right + _BLOCK].sum((1, 3), np.int64)
        // (32 * _BLOCK**2)
        for down, right in _CORNERS
    )
    found: NDArray[np.int64] = low
    for place, one in enumerate(others, 1):
        found = found | (one - low & 7) << 3 * place
    return found.ravel()
