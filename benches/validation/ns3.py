"""One case of the validation in ns-3.

The peer comes as the PyPI wheel `ns3`, which holds its headers and libraries; the program
`benches/peers/ns3_dumbbell.cpp` is compiled against them.
"""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from benches import cargo
from benches.validation.case import Case, Result
from weir.errors import Unsupported

VERSION = "3.44.post0"
QUEUES = ("fifo", "codel", "fq-codel", "pie")
"""Those of a `Case` that ns-3 has."""
_PEERS = Path("out/peers")
_SOURCE = Path(__file__).parents[1] / "peers/ns3_dumbbell.cpp"
_MODULES = ["core", "network", "internet", "point-to-point", "applications", "traffic-control",
            "mobility", "stats", "bridge"]  # fmt: skip


def run(case: Case, seed: int) -> Result:
    """Runs one case.

    Raises:
        Unsupported: ns-3 or a compiler is missing.
        WeirError: ns-3 failed.
    """
    answer = simulate(
        flows=",".join(case.flows),
        rate=case.rate_bps,
        rtt_ns=case.rtt_ms * 10**6,
        buffer=case.buffer_bytes,
        queue=case.queue,
        ecn=str(case.ecn).lower(),
        seconds=case.seconds,
        **{"from": case.from_s},
        seed=seed,
    )
    cost = {"packets_per_cpu_s": answer["packets_per_cpu_s"]}
    return Result(
        answer["goodput_bps"], answer["loss"], answer["mean_queue_s"], answer["marked"], cost
    )


def simulate(**options: object) -> dict[str, Any]:
    """What the program prints for these of its options."""
    words = [f"--{name}={value}" for name, value in options.items()]
    return cargo.answer([str(program()), *words])


def program() -> Path:
    """The program, compiled if its source is newer; the wheel is fetched once."""
    built = _PEERS / "ns3_dumbbell"
    if built.exists() and built.stat().st_mtime >= _SOURCE.stat().st_mtime:
        return built
    sdk = _PEERS / f"ns3-{VERSION}"
    if not sdk.exists():
        _unpack(sdk)
    libraries = (sdk / "ns3/lib64").resolve()
    words = ["g++", "-O2", "-std=c++20", f"-I{sdk}/ns3/include", str(_SOURCE), "-o", str(built)]
    words += [f"-L{libraries}", f"-Wl,-rpath,{libraries}", f"-Wl,-rpath-link,{libraries}"]
    words += [f"-l:libns3.44-{module}.so" for module in _MODULES]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Unsupported("the benchmark needs g++: run scripts/setup bench") from error
    if done.returncode != 0:
        raise Unsupported(f"the ns-3 peer does not build: {done.stderr[-500:]}")
    return built


def _unpack(sdk: Path) -> None:
    _PEERS.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", f"ns3=={VERSION}"]
    done = subprocess.run([*words, "-d", str(_PEERS)], capture_output=True, text=True, check=False)
    wheels = list(_PEERS.glob(f"ns3-{VERSION}-*.whl"))
    if done.returncode != 0 or not wheels:
        raise Unsupported(f"ns-3 {VERSION} can not be had from the package index")
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(sdk)
    wheels[0].unlink()
