"""The wheel: what a host that has no checkout gets."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODELS_MAX = 5e6  # bytes, of the recogniser and all that goes with it
OF_CHOOSING = ("weir/ops/recognition/", "weir/ops/choice/", "weir/ops/data/")

# Run where nothing of the checkout is on the path.
CHOOSES = """
import numpy as np
import weir._core
from weir.ops.choice.decide import Wanted, choose
from weir.ops.recognition.recogniser import Recogniser

idle = 30 + np.random.default_rng(1).exponential(0.05, 100)
found = Recogniser.shipped().of_series(idle)
choice = choose(found, ("bbr", "cubic"), "bbr", Wanted())
print(weir._core.__file__, found.label, choice.control)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    build = ["maturin", "build", "--quiet", "--release", "--out", str(out)]
    maturin = Path(sys.executable).with_name(build[0])
    subprocess.run([maturin, *build[1:]], cwd=ROOT, check=True, timeout=280)
    (found,) = out.glob("*.whl")
    return found


def test_the_models_are_in_the_wheel_and_small(wheel):
    with zipfile.ZipFile(wheel) as content:
        sizes = {
            one.filename: one.compress_size
            for one in content.infolist()
            if one.filename.startswith(OF_CHOOSING) and not one.filename.endswith(".py")
        }
    assert "weir/ops/recognition/recogniser.npz" in sizes
    assert "weir/ops/choice/interaction.json" in sizes
    assert sum(sizes.values()) < MODELS_MAX


def test_from_the_wheel_alone_a_control_is_chosen(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path)
    ran = subprocess.run(
        [sys.executable, "-P", "-c", CHOOSES],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    where, label, control = ran.stdout.split()
    assert Path(where).is_relative_to(tmp_path)
    assert (label, control) == ("B0-C0", "cubic")
