"""A classifier of aeon learns and answers; run by the Python of aeon's own environment.

    python aeon_classifier.py NAME WINDOWS.npz

The file has `learned` and `asked`, windows in rows, and `labels`, of those to learn from. Prints
the answers' labels as JSON.
"""

import json
import sys

import numpy as np
from aeon.classification import convolution_based


def main() -> None:
    """Answers on standard output."""
    name, path = sys.argv[1:]
    with np.load(path) as windows:
        learned, labels, asked = (windows[key] for key in ("learned", "labels", "asked"))
    classifier = getattr(convolution_based, name)(random_state=1)
    classifier.fit(learned[:, None, :], labels)
    answers = classifier.predict(asked[:, None, :])
    json.dump({"answers": answers.tolist()}, sys.stdout)


if __name__ == "__main__":
    main()
