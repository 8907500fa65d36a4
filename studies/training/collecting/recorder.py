"""One recording: a lab of one bottleneck, a background on it, and `weir probe` beside that."""

import contextlib
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.rig import watch
from studies.rig.background import Stream, background
from studies.rig.bottleneck import FAR, NEAR, scenario
from studies.rig.processes import json_lines, started, weir_command
from weir import __version__, _core, errors
from weir.congestion.recordings import NetworkPath, Recording
from weir.errors import WeirError
from weir.lab import Lab, parse
from weir.lab.traffic import FIRST_PORT
from weir.probe import Pattern, Plan
from weir.probe.responder import DEFAULT_PORT

_LOOK_S = 2.0  # between looks at the streams
_MISSED_MAX = 0.01  # of the samples
_BEYOND_MAX = 0.01  # likewise
_BEYOND_MS = 3.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What one recording is of.

    Attributes:
        label: of the background, one of `ALL_LABELS`.
        path: of which there is one bottleneck.
        plan: how it is probed, and for how long.
        warmup_s: how long the lab, and with it the background, has run before that.
        pattern: of active probing; None for passive.
        seed: of what is drawn: the background, and the emulator's choices.
    """

    label: str
    path: NetworkPath
    plan: Plan
    warmup_s: float = 20.0
    pattern: Pattern | None = None
    seed: int = 1

    @property
    def background(self) -> list[Stream]:
        """Its streams; BadInput if there is no such label."""
        return background(self.label, self.path, self.seed)

    def scenario(self) -> str:
        """The lab's scenario, as TOML."""
        return scenario("collect", self.path, self.background, self.seed)

    def made(self, one: Recording) -> bool:
        """Whether a recording is of this setting."""
        return (
            (one.label, one.source, one.path, one.seed, one.requests)
            == (self.label, "kernel", self.path, self.seed, self.plan.requests)
            and one.pattern == (str(self.pattern) if self.pattern else None)
            and one.rate_hz == float(self.plan.rate_hz)
            and len(one.rtt_ms) == self.plan.samples
            and one.made.get("warmup_s") == self.warmup_s
        )


def capture(setting: Setting) -> Recording:
    """Makes a recording, which takes as long as its setting says and a moment more.

    Returns:
        The recording; with `flaws` if the machine was too slow for the lab or for the prober, or
        the background was not what the label says.

    Raises:
        BadInput: the setting cannot be right.
        Unsupported: this machine has no labs, or lacks a congestion control.
        Unavailable: the path answered no request.
    """
    text = setting.scenario()
    with Lab.up(parse(text, f"the path {setting.path}")) as lab, _sink(lab, setting):
        time.sleep(max(0.0, setting.warmup_s - lab.status()["up_s"]))
        samples, looks, found = _probed(lab, setting)
        headroom = lab.status()["headroom"]
    rtt_ms = np.array([s["rtt_ms"] if s["replies"] else np.nan for s in samples], dtype=float)
    rate_bps, alone = setting.path.rate_bps, setting.pattern is None
    flaws = [
        *machine_flaws(setting.path, rtt_ms, headroom, found["prober"]["missed_samples"]),
        *watch.flaws(looks, setting.background, rate_bps, alone=alone),
    ]
    return Recording(
        label=setting.label,
        source="kernel",
        path=setting.path,
        pattern=str(setting.pattern) if setting.pattern else None,
        seed=setting.seed,
        rate_hz=float(setting.plan.rate_hz),
        requests=setting.plan.requests,
        rtt_ms=rtt_ms,
        lost=np.array([s["requests"] - s["replies"] for s in samples], dtype=np.int64),
        background_bps=watch.rates_bps(looks),
        flaws=tuple(flaws),
        made={
            "weir": __version__,
            "core": _core.__source__,
            "kernel": platform.release(),
            "processors": os.cpu_count(),
            "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "warmup_s": setting.warmup_s,
            "scenario": text,
            "emulator": headroom,
            "prober": found["prober"],
            "kernel_stamped": found["kernel_stamped"],
        },
    )


def machine_flaws(
    path: NetworkPath, rtt_ms: NDArray[np.float64], headroom: Mapping[str, Any], missed: int
) -> Iterator[str]:
    """Why this machine was too slow, in words.

    Args:
        path: that was to be emulated.
        rtt_ms: what was seen of it, NaN without a reply.
        headroom: of the emulator, as the lab tells it.
        missed: samples that the prober was too late for.
    """
    if headroom["bottleneck"]:
        late_ms = headroom["lateness_p99_ns"] / 1e6
        yield (
            f"the emulator did not keep up: {late_ms:.2f} ms late (p99), busy for "
            f"{headroom['busy_peak']:.0%} of a second"
        )
    if missed > _MISSED_MAX * len(rtt_ms):
        yield f"the prober missed {missed} of {len(rtt_ms)} samples"
    beyond = int((rtt_ms > path.full_ms + _BEYOND_MS).sum())
    if beyond > _BEYOND_MAX * len(rtt_ms):
        yield (
            f"{beyond} of {len(rtt_ms)} samples took longer than the path with a full queue, "
            f"{path.full_ms:.1f} ms"
        )


@contextlib.contextmanager
def _sink(lab: Lab, setting: Setting) -> Iterator[None]:
    """What the bursts of active probing go to."""
    if setting.pattern is None:
        yield
        return
    with started(lab, FAR, weir_command("probe", "--serve", str(DEFAULT_PORT), "--json")):
        yield


def _probed(
    lab: Lab, setting: Setting
) -> tuple[list[dict[str, Any]], list[watch.Look], dict[str, Any]]:
    """The samples, the background meanwhile, and what the prober says at the end."""
    plan = setting.plan
    rate, seconds = (str(value) for value in (plan.rate_hz, plan.seconds))
    command = weir_command("probe", FAR, "--json", "--rate", rate, "--seconds", seconds)
    command += ["--requests", str(plan.requests), "--timeout", str(plan.timeout_s)]
    if setting.pattern:
        command += ["--active", str(setting.pattern), "--sink", str(DEFAULT_PORT)]
    event: dict[str, Any] = {}
    samples, looks = [], [_look(lab, setting)]
    with lab.popen(NEAR, command, stdout=subprocess.PIPE, text=True) as prober:
        assert prober.stdout, "a pipe"
        try:
            for event in json_lines(prober.stdout):
                if event["event"] == "error":
                    raise _error(event)
                if event["event"] == "sample":
                    samples.append(event)
                if event["event"] == "done" or time.monotonic() >= looks[-1].at_s + _LOOK_S:
                    looks.append(_look(lab, setting))
        except BaseException:
            prober.terminate()
            raise
    if event.get("event") != "done":
        raise WeirError(f"the prober ended with {prober.returncode} and without a summary")
    return samples, looks, event


def _error(event: Mapping[str, Any]) -> WeirError:
    """The prober's own, by its exit code."""
    kinds = {
        kind.exit_code: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, WeirError)
    }
    return kinds[event["exit_code"]](event["message"])


def _look(lab: Lab, setting: Setting) -> watch.Look:
    streams = setting.background
    datagrams: dict[int, int] = {}
    if any(stream.congestion is None for stream in streams):
        traffic = enumerate(lab.status()["traffic"])
        datagrams = {number: one.get("received_bytes", 0) for number, one in traffic}
    told = watch.sockets(lab, NEAR)
    return watch.look(time.monotonic(), streams, FIRST_PORT, told, datagrams)
