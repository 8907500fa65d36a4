"""The Markov chain of Reno's window, beside the values of 003-spec section 3.5."""

import math

import numpy as np
import pytest

from studies.works.w003.ch3_window import mean_window, spectrum, transitions


@pytest.mark.parametrize(
    ("loss", "window_max", "mean"),
    [(0.02, 50, 8.601), (0.01, 100, 12.435), (0.005, 100, 17.859), (0.001, 200, 40.754)],
)
def test_the_mean_window_is_that_of_the_specification(loss, window_max, mean):
    """T-B2, and below."""
    assert mean_window(loss, window_max) == pytest.approx(mean, abs=5e-4)


def test_two_windows_by_hand():
    assert transitions(0.1, 2) == pytest.approx(np.array([[0.1, 0.9], [0.19, 0.81]]))
    assert mean_window(0.1, 2) == pytest.approx(1.8257, abs=5e-5)


def test_it_grows_with_the_root_of_the_loss_as_mathis_has_it():
    # Mathis et al. 1997: sqrt(3 / 2p), for losses that are few and far between.
    assert mean_window(1e-4, 500) == pytest.approx(math.sqrt(1.5 / 1e-4), rel=0.08)


@pytest.mark.parametrize(
    ("share", "value"),
    [(0.8, -0.01064), (0.9, -0.00233), (1.0, 0.0), (1.1, -0.00183), (1.2, -0.00664)],
)
def test_the_spectrum_is_that_of_the_specification(share, value):
    mean = mean_window(0.01, 100)
    assert spectrum(0.01, 100, share * mean) == pytest.approx(value, abs=2e-5)


def test_the_spectrum_is_concave_and_nothing_at_the_mean_alone():
    """T-B2."""
    means = mean_window(0.02, 30) * np.linspace(0.7, 1.3, 25)
    values = np.array([spectrum(0.02, 30, mean) for mean in means])
    assert (np.diff(values, 2) < 0).all()
    assert values.argmax() == 12 and values[12] == pytest.approx(0, abs=1e-6)
    assert (np.delete(values, 12) < -1e-4).all()


def test_means_of_a_simulated_window_stray_as_often_as_the_spectrum_has_it():
    loss, window_max, steps, runs = 0.02, 40, 200, 4_000
    mean = mean_window(loss, window_max)
    random = np.random.default_rng(1)
    windows, sums = np.full(runs, round(mean)), np.zeros(runs)
    for _ in range(steps):
        sums += windows
        struck = random.random(runs) < 1 - (1 - loss) ** windows
        grown = np.minimum(windows + 1, window_max)
        windows = np.where(struck, np.maximum(windows // 2, 1), grown)
    assert sums.mean() / steps == pytest.approx(mean, rel=0.01)
    # Cramér's bound: what is rarer than exp(n f) is a constant's work, not another exponent's.
    for share in (1.1, 1.2):
        seen = float(np.mean(sums / steps >= share * mean))
        foreseen = spectrum(loss, window_max, share * mean)
        assert math.log(seen) / steps == pytest.approx(foreseen, abs=0.012)
