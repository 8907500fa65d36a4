"""What people said of a desktop's quality, and what follows from it (000-spec 5.6).

Mean opinions with their intervals, tests between losses, a mixed model in which each person has a
level of their own, honest differences in it, and how opinions and measures go together.
"""

import csv
import io
import itertools
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weir import extras, files
from weir._core import estimate
from weir.errors import BadInput
from weir.printable import printable

_COLUMNS = ("subject", "activity", "loss_percent", "rating")
_MOST = 1_000_000
_DRAWS = 1 << 16
_LEAST_VARIANCE = 1e-9
_SHOWN = 100
"""So many characters of what is wrong are shown."""


@dataclass(frozen=True, slots=True)
class Rating:
    """One opinion.

    Attributes:
        subject: whose; only to tell people apart.
        activity: what was done: images, video, a call.
        loss_percent: packets lost meanwhile, in percent.
        rating: from 1, bad, to 5, excellent (ITU-T P.800).
    """

    subject: str
    activity: str
    loss_percent: float
    rating: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Between two losses.

    Attributes:
        pair: the losses in percent, the lower first.
        estimate: how much better the higher loss is rated.
        low, high: its 95 % interval.
        p: of there being none.
    """

    pair: tuple[float, float]
    estimate: float
    low: float
    high: float
    p: float

    @property
    def is_significant(self) -> bool:
        """At 5 %."""
        return self.p < 0.05


@dataclass(frozen=True, slots=True)
class Slope:
    """Per percent of loss.

    Attributes:
        estimate: how much is gained; negative where quality falls.
        error: its standard error.
        start: at no loss, on the line.
    """

    estimate: float
    error: float
    start: float


def load(path: Path) -> list[Rating]:
    """Ratings of a CSV file with the columns subject, activity, loss_percent, rating.

    Several ratings of one iteration (the column `iteration`, where there is one) become their mean:
    one value per iteration counts (AMB-48).

    Raises:
        BadInput: it cannot be read, a column is missing, or a value is wrong; names the line.
    """
    reader = csv.DictReader(io.StringIO(files.text(path), newline=""))
    groups: dict[tuple[object, ...], list[Rating]] = {}
    try:
        missing = [one for one in _COLUMNS if one not in (reader.fieldnames or ())]
        if missing:
            raise BadInput(f"{path} has no column {missing[0]}; it needs {', '.join(_COLUMNS)}")
        for row in reader:
            rating = _rating(row, f"{path}:{reader.line_num}")
            once = row.get("iteration") or reader.line_num
            key = (rating.subject, rating.activity, rating.loss_percent, once)
            if reader.line_num > _MOST + 1:
                raise BadInput(f"{path} has more than {_MOST} ratings")
            groups.setdefault(key, []).append(rating)
    except csv.Error as error:
        raise BadInput(f"{path}: {error}") from None
    if not groups:
        raise BadInput(f"{path} has no ratings")
    return [_mean(each) for each in groups.values()]


def _rating(row: Mapping[str, str | None], place: str) -> Rating:
    try:
        loss, value = float(row["loss_percent"] or ""), float(row["rating"] or "")
    except ValueError as error:
        raise BadInput(f"{place}: {printable(str(error)[:_SHOWN])}") from None
    for name in ("subject", "activity"):
        if not row[name]:
            raise BadInput(f"{place}: no {name}")
    if not 0 <= loss <= 100:
        raise BadInput(f"{place}: a loss of {loss:g} %: 0 to 100")
    if not 1 <= value <= 5:
        raise BadInput(f"{place}: a rating of {value:g}: 1 (bad) to 5 (excellent)")
    return Rating(printable(row["subject"] or ""), printable(row["activity"] or ""), loss, value)


def _mean(each: Sequence[Rating]) -> Rating:
    first = each[0]
    mean = float(np.mean([one.rating for one in each]))
    return Rating(first.subject, first.activity, first.loss_percent, mean)


def of(ratings: Iterable[Rating], activity: str) -> list[Rating]:
    """Those of one activity."""
    return [one for one in ratings if one.activity == activity]


def by_loss(ratings: Iterable[Rating]) -> dict[float, list[float]]:
    """Values at each loss, the lowest loss first."""
    found: dict[float, list[float]] = {}
    for one in ratings:
        found.setdefault(one.loss_percent, []).append(one.rating)
    return dict(sorted(found.items()))


def mean_opinions(ratings: Iterable[Rating]) -> dict[float, tuple[float, float]]:
    """The mean at each loss and half its 95 % interval (Student's), 0 for a single value."""
    return {
        loss: estimate(values) if len(values) > 1 else (values[0], 0.0)
        for loss, values in by_loss(ratings).items()
    }


def t_tests(ratings: Iterable[Rating], pooled: bool = True) -> list[Difference]:
    """Student's test between each two losses: two-sided, unpaired, unadjusted (AMB-36).

    Args:
        ratings: of one activity.
        pooled: whether both have one variance; otherwise Welch's test.

    Raises:
        BadInput: a loss with less than two ratings.
        Unsupported: scipy is not installed.
    """
    stats = extras.load("scipy.stats")
    groups = by_loss(ratings)
    few = [loss for loss, values in groups.items() if len(values) < 2]
    if few:
        raise BadInput(f"one rating at {few[0]:g} % loss: a test needs two at least")
    if all(min(values) == max(values) for values in groups.values()):
        raise BadInput("everybody rates each loss alike: without any spread there is no test")
    found = []
    for low, high in itertools.combinations(groups, 2):
        test = stats.ttest_ind(groups[high], groups[low], equal_var=pooled)
        interval = test.confidence_interval(0.95)
        difference = float(np.mean(groups[high]) - np.mean(groups[low]))
        ends = float(interval.low), float(interval.high)
        found.append(Difference((low, high), difference, *ends, float(test.pvalue)))
    return found


def honest_differences(ratings: Sequence[Rating], seed: int = 1) -> list[Difference]:
    """Between each two losses in a mixed model, all of them together sure to 95 %.

    Each person has a level of their own (a random intercept), losses are categories; estimates are
    restricted maximum likelihood's. Intervals and p are those of all comparisons at once, from the
    joint normal distribution of the estimates (Hothorn, Bretz and Westfall 2008), as R's multcomp
    has them for models of lme4; it is drawn with a seed, to about three digits.

    Raises:
        BadInput: fewer than two losses, or nobody rated twice, or the model cannot be fitted.
        Unsupported: statsmodels is not installed.
    """
    losses = list(by_loss(ratings))
    if len(losses) < 2:
        raise BadInput("ratings at one loss only: there is nothing to compare")
    columns = np.array([[float(one.loss_percent == loss) for loss in losses] for one in ratings])
    means, covariance = _mixed(ratings, columns)
    pairs = list(itertools.combinations(range(len(losses)), 2))
    contrasts = np.zeros((len(pairs), len(losses)))
    for row, (low, high) in enumerate(pairs):
        contrasts[row, low], contrasts[row, high] = -1, 1
    estimates = contrasts @ means
    errors = np.sqrt(np.einsum("pi,ij,pj->p", contrasts, covariance, contrasts))
    largest = _largest(contrasts, covariance, errors, seed)
    reach = float(np.quantile(largest, 0.95))
    found = []
    for row, (low, high) in enumerate(pairs):
        value, error = float(estimates[row]), float(errors[row])
        p = float(np.mean(largest >= abs(value) / error))
        ends = value - reach * error, value + reach * error
        found.append(Difference((losses[low], losses[high]), value, *ends, p))
    return found


def _largest(contrasts: Any, covariance: Any, errors: Any, seed: int) -> Any:
    """The largest of all contrasts' |z|, drawn evenly from their joint distribution."""
    qmc, special = extras.load("scipy.stats.qmc"), extras.load("scipy.special")
    uniform = qmc.Sobol(len(covariance), seed=seed).random(_DRAWS)
    normal = special.ndtri(np.clip(uniform, 1e-12, 1 - 1e-12))
    drawn = normal @ np.linalg.cholesky(covariance).T
    return np.max(np.abs(drawn @ contrasts.T) / errors, axis=1)


def opinion_slope(ratings: Sequence[Rating]) -> Slope:
    """Opinion against loss in a mixed model, in which each person has a level of their own.

    Raises:
        BadInput: fewer than two losses, or the model cannot be fitted.
        Unsupported: statsmodels is not installed.
    """
    if len(by_loss(ratings)) < 2:
        raise BadInput("ratings at one loss only: they have no slope")
    columns = np.array([[1.0, one.loss_percent] for one in ratings])
    means, covariance = _mixed(ratings, columns)
    return Slope(float(means[1]), math.sqrt(covariance[1, 1]), float(means[0]))


def slope(by_loss: Mapping[float, float]) -> Slope:
    """A measure's means against loss, by least squares.

    Raises:
        BadInput: fewer than two losses.
        Unsupported: scipy is not installed.
    """
    if len(by_loss) < 2:
        raise BadInput("a measure at one loss only: it has no slope")
    fit = extras.load("scipy.stats").linregress(list(by_loss), list(by_loss.values()))
    return Slope(float(fit.slope), float(fit.stderr), float(fit.intercept))


def correlation(measure: Mapping[float, float], opinion: Mapping[float, float]) -> float:
    """Pearson's r of a measure's means and mean opinions, over the losses that both have.

    Raises:
        BadInput: fewer than three losses in common, or one of both is the same at all.
    """
    common = sorted(measure.keys() & opinion.keys())
    if len(common) < 3:
        raise BadInput(f"{len(common)} losses in common: a correlation needs three")
    columns = [[one[loss] for loss in common] for one in (measure, opinion)]
    if any(min(column) == max(column) for column in columns):
        raise BadInput("what is the same at every loss goes together with nothing")
    return float(np.corrcoef(np.array(columns))[0, 1])


def _mixed(ratings: Sequence[Rating], columns: Any) -> tuple[Any, Any]:
    """Coefficients of a model with an intercept for each person, and their covariance."""
    subjects = [one.subject for one in ratings]
    if len(set(subjects)) == len(subjects):
        raise BadInput("nobody rated twice: without that no person's own level can be told")
    if len(set(subjects)) < 2:
        raise BadInput("one person rated: what is theirs and what is the loss's cannot be told")
    if len({(one.loss_percent, one.rating) for one in ratings}) == len(by_loss(ratings)):
        raise BadInput("everybody rates each loss alike: without any spread there is no model")
    with extras.named():
        from statsmodels.regression.mixed_linear_model import MixedLM
    values = np.array([one.rating for one in ratings])
    with warnings.catch_warnings():
        # A person's own level may be nothing at all: that is an answer, not a failure.
        warnings.simplefilter("ignore")
        try:
            fit = MixedLM(values, columns, groups=subjects).fit(
                reml=True, method=["bfgs", "powell"]
            )
        except (np.linalg.LinAlgError, ValueError) as error:
            raise BadInput(f"the mixed model cannot be fitted to these ratings: {error}") from None
    if not np.isfinite(fit.scale):
        raise BadInput("the mixed model cannot be fitted to these ratings")
    _, person = np.unique(subjects, return_inverse=True)
    counts = np.bincount(person)
    # What the fixed effects have alone, at the variances found, as in lme4: statsmodels' own is
    # that of both together, which is a hundredth wider where cells are unequal.
    ratio = float(fit.cov_re[0, 0]) / fit.scale
    sums = np.zeros((len(counts), columns.shape[1]))
    np.add.at(sums, person, columns)
    within = columns.T @ columns - (sums.T * (ratio / (1 + counts * ratio))) @ sums
    covariance = fit.scale * np.linalg.inv(within)
    if not fit.scale > _LEAST_VARIANCE or not np.isfinite(covariance).all():
        raise BadInput("beside people's own levels and the loss nothing differs: no error is known")
    return fit.fe_params, covariance
