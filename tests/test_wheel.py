"""The wheel: what a host that has no checkout gets."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODELS_MAX = 6e6  # bytes, of the recogniser and all that goes with it
OF_CHOOSING = ("weir/congestion/classify/", "weir/congestion/choice/", "weir/congestion/data/")

# Run where nothing of the checkout is on the path.
CHOOSES = """
import numpy as np
import weir._core
from weir.congestion.choice.decide import Wanted, choose
from weir.congestion.classify.recogniser import Recogniser

idle = 30 + np.random.default_rng(1).exponential(0.05, 100)
found = Recogniser.shipped().of_series(idle)
choice = choose(found, ("bbr", "cubic"), "bbr", Wanted())
print(weir._core.__file__, found.label, choice.control)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    build = ["maturin", "build", "--quiet", "--profile", "tests", "--out", str(out)]
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
    assert "weir/congestion/classify/recogniser.npz" in sizes
    assert "weir/congestion/classify/company.npz" in sizes
    assert "weir/congestion/choice/interaction.json" in sizes
    assert sum(sizes.values()) < MODELS_MAX


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    """A folder with the wheel's content."""
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder)
    return folder


def alone(unpacked, folder, *words):
    """Runs Python on what came in the wheel, somewhere else than in the checkout."""
    return subprocess.run(
        [sys.executable, "-P", *words],
        cwd=folder,
        env={"PYTHONPATH": str(unpacked), "HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_from_the_wheel_alone_a_control_is_chosen(unpacked, tmp_path):
    ran = alone(unpacked, tmp_path, "-c", CHOOSES)
    assert ran.returncode == 0, ran.stderr
    where, label, control = ran.stdout.split()
    assert Path(where).is_relative_to(unpacked)
    assert (label, control) == ("B0-C0", "cubic")


def test_the_wheel_is_not_called_what_another_project_is(wheel, unpacked):
    assert wheel.name.startswith("weir_net-")
    (entry_points,) = unpacked.glob("weir_net-*.dist-info/entry_points.txt")
    assert "weir=weir.cli:main" in entry_points.read_text().replace(" ", "")


def test_every_scenario_is_in_the_wheel(unpacked):
    shipped = {path.name: path.read_bytes() for path in (ROOT / "scenarios").glob("*.toml")}
    assert "deadlines.toml" in shipped
    there = (unpacked / "weir" / "scenarios").glob("*.toml")
    assert {path.name: path.read_bytes() for path in there} == shipped


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sim", "home", "--duration", "100 ms"], "home, "),
        (["sim", "scenarios/background.toml", "--duration", "100 ms"], "background, "),
        (["migrate", "plan", "migration", "--planner", "greedy"], "makespan"),
        (["reproduce", "--list", "002-fig-3.5"], "weir reproduce 002-fig-3.5"),
        (["ops", "show", "{data}/kernel.npz"], "recordings"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_from_the_wheel_alone_its_scenarios_run(unpacked, tmp_path, words, said):
    given = [word.format(data=unpacked / "weir/congestion/data") for word in words]
    ran = alone(unpacked, tmp_path, "-m", "weir.cli", *given)
    assert ran.returncode == 0, ran.stderr
    assert said in ran.stdout


def test_from_the_wheel_alone_the_demonstration_is_found(unpacked, tmp_path):
    """It is read whole, its lab's scenario too, before the folder for the page is refused."""
    (tmp_path / "file").touch()
    ran = alone(unpacked, tmp_path, "-m", "weir.cli", "run", "--out", "file/run")
    assert ran.returncode == 2
    assert "file/run" in ran.stderr
