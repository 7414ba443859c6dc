"""Medians, spreads, and ratios with confidence intervals. Pure arithmetic on lists of numbers."""

import random
from statistics import median

RESAMPLES = 2000
CONFIDENCE = 0.95


def _interval(values):
    """The middle 95 % of a list."""
    ordered = sorted(values)
    margin = (1 - CONFIDENCE) / 2
    return ordered[int(margin * len(ordered))], ordered[min(len(ordered) - 1, int((1 - margin) * len(ordered)))]


def summary(values):
    """Median, smallest and largest value."""
    return {"median": median(values), "least": min(values), "greatest": max(values), "samples": len(values)}


def paired_ratio(ours, theirs):
    """Ratio of two sides measured in the same rounds: {round: value} each.

    Returns the median of the ratios per round and its bootstrap interval (None with fewer than three rounds). Pairing by
    round removes disturbances of the machine that hit both sides. Returns None if no round has both sides, or if a value
    of theirs is 0.
    """
    rounds = sorted(set(ours) & set(theirs))
    if not rounds or any(theirs[r] == 0 for r in rounds):
        return None
    ratios = [ours[r] / theirs[r] for r in rounds]
    result = {"ratio": median(ratios), "low": None, "high": None}
    if len(ratios) >= 3:
        chance = random.Random(0)
        resampled = [median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)]
        result["low"], result["high"] = _interval(resampled)
    return result


def unpaired_ratio(new, old):
    """Ratio of two lists measured at different times, with a bootstrap interval as above."""
    if not new or not old or median(old) == 0:
        return None
    result = {"ratio": median(new) / median(old), "low": None, "high": None}
    if len(new) >= 3 and len(old) >= 3:
        chance = random.Random(0)
        resampled = []
        for _ in range(RESAMPLES):
            bottom = median(chance.choices(old, k=len(old)))
            if bottom:
                resampled.append(median(chance.choices(new, k=len(new))) / bottom)
        if resampled:
            result["low"], result["high"] = _interval(resampled)
    return result


def beyond(ratio, threshold):
    """-1 if a ratio is below 1 by more than the threshold and its whole interval is below 1; 1 if both are above; else 0.

    Without an interval the noise is not known, and the answer is 0.
    """
    if ratio is None or ratio["low"] is None:
        return 0
    if ratio["low"] > 1 and ratio["ratio"] > 1 + threshold:
        return 1
    if ratio["high"] < 1 and ratio["ratio"] < 1 - threshold:
        return -1
    return 0
