"""Whether a system is worth it: a decision from its gain over the first system on a sample of queries.

The interval covers the choice of queries, and which pairs nobody judged. Each query has its own prediction-powered
estimate of the gain. The variance of these estimates over the queries contains both sources: the queries are the
clusters of a sample in two stages, and a variance between clusters contains that within them (Särndal, Swensson and
Wretman, "Model Assisted Survey Sampling", 1992, 4.6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from retrokit.extensions.judging.prediction_powered import PoweredEstimate

_MOST_QUERIES = 10
"""Times as many queries, above which a number of queries is no advice."""


@dataclass(frozen=True)
class Worth:
    """Whether a system is worth it.

    Attributes:
        against: the first system.
        verdict: ``yes``: the gain is above ``least``; ``no``: it is below; ``judge``: ``more`` verdicts would tell;
            ``queries``: all verdicts would not tell, but ``more`` queries; ``unknown``: neither is known to.
        gain: in the metric, with its interval.
        least: the smallest gain that is worth it.
    """

    system: str
    against: str
    metric: str
    verdict: str
    gain: PoweredEstimate
    least: float
    more: int | None = None

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        numbers = f"{self.gain.value:+.4f} {self.metric} ({self.gain.low:+.4f} … {self.gain.high:+.4f})"
        threshold = f"{self.least:+g}" if self.least else "0"
        answer, reason = self.verdict, f"the gain over {self.against} is above {threshold}"
        if self.verdict == "no":
            reason = f"the gain over {self.against} is below {threshold}"
        elif self.verdict == "judge":
            answer, reason = f"judge {self.more:,} more", f"about {self.more:,} more verdicts would decide"
        elif self.verdict == "queries":
            answer = "not yet"
            reason = f"all verdicts would not decide; add about {self.more:,} queries and judge a new pool"
        elif self.verdict == "unknown":
            answer = "not yet"
            reason = f"cannot be told; the gain over {self.against} is too near {threshold} for these queries"
            if self.gain.low == self.gain.high:
                reason = "cannot be told; every query gains the same; add queries and judge a new pool"
        return f"{self.system}: {answer}. {numbers}: {reason}"


@dataclass(frozen=True)
class QueryInterval:
    """A mean over queries, and half the width of its 95% interval.

    Attributes:
        half: over the queries that people ask and the pairs that nobody judged.
        of_judging: the part of it that would be left if these were all queries; judging all pairs makes it 0.
        of_queries: the part that would be left if all pairs were judged.
    """

    value: float
    half: float
    of_judging: float
    of_queries: float

    @property
    def estimate(self) -> PoweredEstimate:
        """With both ends."""
        return PoweredEstimate(self.value, self.value - self.half, self.value + self.half)


def over_queries(
    estimates: np.ndarray, judging: PoweredEstimate, comparisons: int = 1, variance: float = 0.0
) -> QueryInterval:
    """The interval of the mean of the estimates of all queries, ``[queries]``; ``judging`` is that mean with an
    interval for these queries. The intervals of several ``comparisons`` hold together (Bonferroni). ``variance`` is
    that of the true values over queries, of which the choice of queries is a part."""
    from scipy.special import stdtrit

    count = len(estimates)
    error = float(np.std(estimates, ddof=1)) / math.sqrt(count)
    factor = float(stdtrit(count - 1, 1 - 0.025 / comparisons))
    of_judging = (judging.high - judging.low) / 2 * factor / float(stdtrit(count - 1, 0.975))
    of_queries = factor * math.sqrt(variance / count)
    return QueryInterval(judging.value, max(factor * error, of_judging), of_judging, of_queries)


@dataclass(frozen=True)
class Effort:
    """The work so far: ``verdicts`` on some of the ``pairs``, of ``queries``."""

    verdicts: int
    pairs: int
    queries: int


def decide(gain: QueryInterval, least: float, effort: Effort) -> tuple[str, int | None]:
    """The ``verdict`` of :class:`Worth`, and how many ``more``."""
    if gain.half == 0:  # no query differs from another, which says nothing of the queries that were not drawn
        return "unknown", None
    distance = abs(gain.value - least)
    if distance > gain.half:
        return ("yes" if gain.value > least else "no"), None
    room = distance**2 - gain.of_queries**2
    if room > 0 and gain.of_judging > 0:
        # the square of the part of judging goes with 1/n − 1/N, for n verdicts on N pairs
        inverse = (1 / effort.verdicts - 1 / effort.pairs) * room / gain.of_judging**2 + 1 / effort.pairs
        more = _in_tens(1 / inverse - effort.verdicts)
        return "judge", min(more, effort.pairs - effort.verdicts)
    if distance > 0:
        more = _in_tens(effort.queries * ((gain.half / distance) ** 2 - 1))
        if more <= _MOST_QUERIES * effort.queries:
            return "queries", more
    return "unknown", None


def _in_tens(count: float) -> int:
    """The next multiple of ten."""
    return max(math.ceil(count / 10), 1) * 10
