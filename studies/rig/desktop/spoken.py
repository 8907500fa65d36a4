"""Calls over a line of the lab: Opus over RTP by GStreamer's programs, as WebRTC has it.

20 ms a packet at 24 kbit/s. Each packet has a coarse copy of the one before (in-band FEC, RFC
6716), which the receiver takes where that one is lost; what is still missing is concealed.
"""

import time
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from studies.rig.desktop import call, lossy, rtp
from studies.rig.processes import Processes
from studies.rig.workspace import open_workspace
from weir.errors import Unavailable, Unsupported
from weir.lab import Lab
from weir.observe.desktop.speech import Samples

_PORT = 7000
_BITS_PER_S = 24_000
PATIENCE_MS = 80
"""A packet that comes later than this after its time is lost."""
_TAIL_S = 1.0
_LOGS_BYTES = 1 << 20
_CAPS = "application/x-rtp,media=(string)audio,clock-rate=(int)48000,encoding-name=(string)OPUS"


def heard(
    said: Sequence[Samples], line: lossy.Line, seed: int, *, name: str | None = None
) -> list[Samples]:
    """What is heard of speech, all of it at the same time over one line.

    Args:
        said: samples from -1 to 1, `call.RATE` a second.
        line: over which they go.
        seed: of its losses.
        name: of the lab.

    Raises:
        Unsupported: this machine has no labs, or lacks a program; says which.
        Unavailable: a program failed.
    """
    lacking = rtp.missing()
    if lacking is not None:
        raise Unsupported(lacking)
    scenario = lossy.scenario(line, seed)
    speaker, listener, _ = (node.name for node in scenario.nodes)
    need_bytes = sum(4 * len(one) for one in said) + _LOGS_BYTES
    with open_workspace(need_bytes) as folder, Lab.up(scenario, name=name) as lab:
        files = [(folder / f"said-{at}.wav", folder / f"heard-{at}.raw") for at in range(len(said))]
        with Processes(lab, folder / "logs") as processes:
            for at, (samples, (spoken, written)) in enumerate(zip(said, files, strict=True)):
                _write(spoken, samples)
                with written.open("wb") as out:
                    processes.start(f"heard-{at}", listener, _receiving(_PORT + at), stdout=out)
            time.sleep(_TAIL_S)  # a receiver does not say when it listens
            address = lab.address(listener)
            senders = [
                processes.start(
                    f"said-{at}", speaker, _sending(spoken, address, _PORT + at, line.loss)
                )
                for at, (spoken, _) in enumerate(files)
            ]
            limit_s = 60 + max(len(one) for one in said) / call.RATE
            if any(one.wait(limit_s) for one in senders):
                processes.check()
            time.sleep(_TAIL_S)
        return [_read(written) for _, written in files]


def _sending(spoken: Path, to: str, port: int, loss: float) -> list[str]:
    return rtp.pipeline(
        f"filesrc location={spoken} ! wavparse ! audioconvert ! audioresample "
        f"! opusenc bitrate={_BITS_PER_S} frame-size=20 audio-type=voice inband-fec=true "
        f"packet-loss-percentage={round(100 * loss)} ! rtpopuspay pt=96 "
        f"! udpsink host={to} port={port}"
    )


def _receiving(port: int) -> list[str]:
    return rtp.pipeline(
        f"udpsrc port={port} caps={_CAPS},payload=(int)96 "
        f"! rtpjitterbuffer latency={PATIENCE_MS} do-lost=true ! rtpopusdepay "
        "! opusdec use-inband-fec=true plc=true ! audioconvert ! audioresample "
        f"! audio/x-raw,format=S16LE,rate={call.RATE},channels=1,layout=interleaved "
        "! fdsink fd=1 sync=false"
    )


def _write(path: Path, samples: Samples) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(call.RATE)
        file.writeframes((32767 * samples).astype("<i2").tobytes())


def _read(path: Path) -> Samples:
    content = path.read_bytes()
    samples: Samples = np.frombuffer(content[: len(content) // 2 * 2], "<i2") / 32768
    if not len(samples):
        raise Unavailable("nothing was heard")
    return samples
