"""The recogniser that was asked for, made."""

from pathlib import Path

from weir.congestion.cycle.settings import Recogniser
from weir.congestion.options import BAND_S, Request


def recogniser(request: Request) -> Recogniser:
    """Makes it, which may take a moment.

    Raises:
        BadInput: the text is not a pattern, or nothing was recorded beside it.
    """
    # Only here: they take numpy, which a transfer need not wait for.
    if not request.is_knn:
        from weir.congestion.classify.recogniser import Recogniser as Own

        return Own.shipped()
    from weir.congestion.classify.knn import KnnRecogniser
    from weir.probe.pattern import Pattern

    return KnnRecogniser(
        pattern=Pattern.parse(request.bursts) if request.bursts else None,
        count=1 if request.neighbours is None else request.neighbours,
        band=BAND_S if request.band is None else request.band,
        seconds=request.window_s(),
        file=Path(request.recordings) if request.recordings else None,
    )
