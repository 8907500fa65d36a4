"""What other programs say of noisy speech and of calls: python speech_reference.py > ….json.

WSS and LLR by pysepm-evo 0.1.1, the score by visqol-python 3.8.0 in its mode for speech; neither is
needed by the tests, which read what they said.
"""

import json
import sys

import numpy as np

from studies.rig.desktop import call

SAID = call.speech("female", 3.0, 1)


def noisy(decibel, seed=5):
    noise = np.random.default_rng(seed).standard_normal(len(SAID))
    return SAID + noise * np.sqrt(np.mean(SAID**2)) * 10 ** (-decibel / 20)


def main():
    from pysepm_evo.qualityMeasures import llr, wss

    cases = [
        {
            "decibel": decibel,
            "wss": float(wss(SAID, noisy(decibel), call.RATE)),
            "llr": float(llr(SAID, noisy(decibel), call.RATE)),
        }
        for decibel in (40, 30, 20, 10, 0)
    ]
    packets = -(-len(SAID) // call.PACKET)
    from visqol import VisqolApi

    judge = VisqolApi()
    judge.create(mode="speech")
    calls = []
    for loss in (0.0, 0.02, 0.05, 0.1, 0.2):
        degraded = call.heard(SAID, call.losses(packets, loss, 1))
        calls.append(
            {"loss": loss, "visqol": judge.measure_from_arrays(SAID, degraded, call.RATE).moslqo}
        )
    json.dump({"cases": cases, "calls": calls}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
