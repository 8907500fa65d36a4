"""A classifier of aeon learns and answers; run by the Python of aeon's own environment.

    python aeon_classifier.py NAME WINDOWS.npz

The file has `learned` and `asked`, windows in rows, and `labels`, of those to learn from. Prints
the answers' labels, and the seconds that learning and one answer took, as JSON.
"""

import json
import sys
import time

import numpy as np
from aeon.classification import convolution_based


def main() -> None:
    """Answers on standard output."""
    name, path = sys.argv[1:]
    with np.load(path) as windows:
        learned, labels, asked = (windows[key] for key in ("learned", "labels", "asked"))
    classifier = getattr(convolution_based, name)(random_state=1)
    began = time.perf_counter()
    classifier.fit(learned[:, None, :], labels)
    fitted = time.perf_counter()
    answers = classifier.predict(asked[:, None, :])
    answered = time.perf_counter()
    spent = {"fit_s": fitted - began, "answer_s": (answered - fitted) / len(asked)}
    json.dump({"answers": answers.tolist(), **spent}, sys.stdout)


if __name__ == "__main__":
    main()
