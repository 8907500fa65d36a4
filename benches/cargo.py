"""Benchmarks that are written in Rust: run by cargo, read as one JSON object per line."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from benches.harness import quick
from weir.errors import Unsupported, WeirError


def samples(package: str, bench: str) -> list[dict[str, Any]]:
    """What `cargo bench` of a package prints; a small run when WEIR_BENCH_QUICK=1.

    Raises:
        Unsupported: there is no toolchain, or the benchmark does not run.
    """
    command = ["cargo", "bench", "--quiet", "-p", package, "--bench", bench]
    if quick():
        command += ["--", "--quick"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Unsupported(f"the benchmark {bench} needs a Rust toolchain (cargo)") from error
    if done.returncode != 0:
        raise Unsupported(f"the benchmark {bench} does not run: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def build_examples(package: str) -> None:
    """Builds the example programs of a package into `target/release/examples`.

    Raises:
        Unsupported: there is no toolchain, or they do not build.
    """
    words = ["cargo", "build", "--quiet", "--release", "-p", package, "--examples"]
    try:
        built = subprocess.run(words, check=False)
    except FileNotFoundError as error:
        raise Unsupported("the benchmark needs a Rust toolchain (cargo)") from error
    if built.returncode != 0:
        raise Unsupported(f"the examples of {package} do not build")


def answer(argv: Sequence[str]) -> dict[str, Any]:
    """What a program prints, one JSON object.

    Raises:
        WeirError: it failed.
    """
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WeirError(f"{argv[0]} failed: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
