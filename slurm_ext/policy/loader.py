"""Choose the cores and workers of a training's loader. Pure: predictions in, decision out.

Bounds decide (DESIGN section 5): a shape is good when its lower bound and its expectation reach
`target` of those of the shape with the best lower bound. A job whose own shape is good keeps its
workers, and gives back CPUs where the site allows it. Any other job gets the good shape with the
fewest cores, then the fewest workers, where that gains enough or frees CPUs. What others on its
cores would turn into a loss is not done: a change holds in every world, or the job stays.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from slurm_ext.core.advice.words import LIMITS
from slurm_ext.core.records import SCRIPT_LEVELS, Decision, Prediction, Shape, ShapeLimits

TARGET = 0.98
MIN_GAIN = 0.05
FAR_MARGIN = 1.05  # of the lower bound over the present rate, by runs of other arguments
WORTH = 1.001  # a bound that rises by less is level: plateaus are not climbed step by step
NO_HELP = 2  # steps up without a better lower bound before the climb ends
Rows = Mapping[int, tuple[Sequence[float], Sequence[float]]]
"""By cores: rates and their lower bounds, of each number of workers above zero."""
CROWDED = "where other jobs crowd its cores it would be slower for a change"
CROWDED_WORKERS = "its workers stay, for the cores may be crowded"


def decide(
    before: Shape,
    predict: Callable[[Shape], Prediction],
    limits: ShapeLimits,
    *,
    target: float = TARGET,
    min_gain: float = MIN_GAIN,
    may_change_cpus: str = "never",
    worker_rss_bytes: int | None = None,
    least_cpus: int = 1,
    workers_stay: str | None = None,
    worlds: Sequence[Callable[[Shape], float]] = (),
    rows: Callable[[Sequence[int], Sequence[int]], Rows] | None = None,
) -> Decision:
    """The smallest core and then worker count whose lower bound is `target` of the best one.

    A job that has workers keeps one at least: the probe takes none of its loaders home.
    `may_change_cpus`: never | grow | any. `worker_rss_bytes` None: memory does not limit workers
    (the probe still checks it inside the job). Never predicts less than `target` of the rate that
    the job would have as written, and takes no CPU away below `least_cpus`. `workers_stay`: why
    its workers cannot be moved; then no CPU is for others. `worlds`: rates by shape elsewhere, of
    which a change keeps `target`, too; one that gives CPUs back is tried without that, and with
    the workers of the script. `rows`: what `predict` says of many cores and workers at once.
    """
    least = min(1, before.num_workers)
    most = max(least, most_workers(limits, worker_rss_bytes))
    once, short = lru_cache(maxsize=None)(predict), most < limits.max_workers
    search = _Search(once, worker_counts(most), target, least=least, short=short)
    cores = core_counts(before.cpus_per_task, limits, may_change_cpus, least_cpus)
    if rows is not None and cores and most > 0:
        search.rows = rows(cores, search.workers[1:])
    written = once(before)  # after the rows, which say what others leave of many shapes at once
    decision = _choose(search, written, cores, min_gain, workers_stay)
    if _holds(decision, worlds, target):
        return decision
    if decision.after.cpus_per_task >= before.cpus_per_task:
        return _leave(written, CROWDED)
    kept = [count for count in cores if count >= before.cpus_per_task]
    others = [
        _choose(search, written, kept, min_gain, workers_stay),
        _with_own_workers(search, written, cores, CROWDED_WORKERS),
    ]
    changed = [other for other in others if other.after != before]
    why = workers_stay if others[0].reason == workers_stay else None  # the user may lift it
    left = _leave(written, why or CROWDED)
    return next((other for other in changed if _holds(other, worlds, target)), left)


def _holds(decision: Decision, worlds: Sequence[Callable[[Shape], float]], target: float) -> bool:
    """True if the change keeps `target` of the rate as written in each world; so does none."""
    before, after = decision.before, decision.after
    return before == after or all(rate(after) >= target * rate(before) for rate in worlds)


def _choose(
    search: "_Search",
    written: Prediction,
    cores: Sequence[int],
    min_gain: float,
    workers_stay: str | None,
) -> Decision:
    """The decision among these core counts."""
    before, workers = written.shape, search.workers
    if not cores:
        return _leave(written, "no shape fits the limits of its partition and node")
    best, chosen = search.climb(cores)
    within = before.cpus_per_task <= cores[-1] and before.num_workers <= workers[-1]
    if within and search.good(written, best):
        decision = _give_back(search, written, chosen, best)
    else:
        decision = _improve(search, written, chosen, min_gain)
    if workers_stay is None or decision.after.num_workers == before.num_workers:
        return decision
    return _with_own_workers(search, written, cores, workers_stay)


def _with_own_workers(
    search: "_Search", written: Prediction, cores: Sequence[int], why: str
) -> Decision:
    """The job with the workers of its script: CPUs that these cannot use go back."""
    before = written.shape
    fewer = [count for count in cores if count < before.cpus_per_task]
    rates = (search.predict(replace(before, cpus_per_task=count)) for count in fewer)
    enough = next((rate for rate in rates if search.good(rate, written)), None)
    if enough is None:
        return _leave(written, why)
    free = before.cpus_per_task - enough.shape.cpus_per_task
    return _change(written, enough, f"{_cpus(free)} would stay idle; {why}")


def most_workers(limits: ShapeLimits, worker_rss_bytes: int | None) -> int:
    """As many workers as the limits and the job's memory hold."""
    if limits.mem_bytes is None or not worker_rss_bytes:
        return limits.max_workers
    return min(limits.max_workers, limits.mem_bytes // worker_rss_bytes)


class _Ends(NamedTuple):
    """Rate and lower bound of one shape, for a search."""

    low: float
    samples_per_s: float
    cores: int
    place: int  # of its number of workers


@dataclass(slots=True)
class _Search:
    """Shapes over worker counts that the limits allow; each is predicted at most once."""

    predict: Callable[[Shape], Prediction]
    workers: Sequence[int]
    target: float
    least: int  # place of the fewest workers
    short: bool  # of memory: it allows fewer workers than the CPUs do
    rows: Rows = field(default_factory=dict)

    def at(self, cores: int, index: int) -> _Ends:
        if index and cores in self.rows:
            rates, lows = self.rows[cores]
            return _Ends(lows[index - 1], rates[index - 1], cores, index)
        prediction = self.told(cores, index)
        return _Ends(prediction.interval.low, prediction.samples_per_s, cores, index)

    def told(self, cores: int, index: int) -> Prediction:
        return self.predict(Shape(cpus_per_task=cores, num_workers=self.workers[index]))

    def good(self, prediction: Prediction, best: Prediction) -> bool:
        return (
            prediction.interval.low >= self.target * best.interval.low
            and prediction.samples_per_s >= self.target * best.samples_per_s
        )

    def climb(self, cores: Sequence[int]) -> tuple[Prediction, Prediction]:
        """The best shape, and of the fewest cores that are good the fewest workers.

        The best worker count never falls as cores grow, so that each climb goes on from the last.
        """
        peaks = [best := self._peak(cores[0], self.least)]
        flat = 0
        for count in cores[1:]:
            peaks.append(peak := self._peak(count, peaks[-1].place))
            better = peak.low > WORTH * best.low
            flat = 0 if better else flat + 1
            best = peak if peak.low > best.low else best
            if flat >= NO_HELP:
                break
        low, rate = self.target * best.low, self.target * best.samples_per_s
        frugal = next(
            prediction
            for prediction in peaks
            if prediction.low >= low and prediction.samples_per_s >= rate
        )
        every = (self.at(frugal.cores, index) for index in range(self.least, len(self.workers)))
        fewest = next(
            prediction
            for prediction in every
            if prediction.low >= low and prediction.samples_per_s >= rate
        )
        return self.told(*best[2:]), self.told(*fewest[2:])

    def _peak(self, cores: int, start: int) -> _Ends:
        flat, best = 0, self.at(cores, start)
        for index in range(start + 1, len(self.workers)):
            ends = self.at(cores, index)
            better = ends.low > WORTH * best.low
            flat = 0 if better else flat + 1
            best = ends if better else best
            if flat >= NO_HELP:
                break
        return best

    def fine(self, written: Prediction, best: Prediction) -> str:
        """The reason for a job to stay as it is; memory may be what keeps workers few."""
        share = min(1.0, written.samples_per_s / best.samples_per_s)
        full = self.short and best.shape.num_workers == self.workers[-1]
        limit = "memory" if full and written.bottleneck == "data" else written.bottleneck
        return f"already at {share:.0%} of its maximum; {LIMITS[limit]} the limit"


def _give_back(
    search: _Search, written: Prediction, chosen: Prediction, best: Prediction
) -> Decision:
    """The job is fine: its workers stay if they can, CPUs that it cannot use go back."""
    fewer = chosen.shape.cpus_per_task
    same = search.predict(Shape(cpus_per_task=fewer, num_workers=written.shape.num_workers))
    after = same if search.good(same, best) else chosen
    free = written.shape.cpus_per_task - fewer
    if free <= 0 or after.samples_per_s < search.target * written.samples_per_s:
        return _leave(written, search.fine(written, best))
    return _change(written, after, f"{_cpus(free)} would stay idle")


def _improve(search: _Search, written: Prediction, chosen: Prediction, min_gain: float) -> Decision:
    """The job could be faster: change it where that is predicted to be worth it."""
    gain = chosen.samples_per_s / written.samples_per_s - 1
    freed = written.shape.cpus_per_task - chosen.shape.cpus_per_task
    margin = 1.0 if chosen.level in SCRIPT_LEVELS else FAR_MARGIN
    is_sure = chosen.interval.low > margin * written.samples_per_s
    if freed > 0 and gain >= search.target - 1 and not (is_sure and gain >= min_gain):
        return _change(written, chosen, f"{_cpus(freed)} would stay idle")
    if gain < min_gain:
        return _leave(written, search.fine(written, chosen))
    if not is_sure:
        return _leave(written, f"it may gain {gain:.0%}, but {_range(chosen)} is too uncertain")
    lost = gain / (1 + gain)
    return _change(written, chosen, f"{_waiting(written)}, which costs {lost:.0%} of its speed")


def _range(prediction: Prediction) -> str:
    return f"{prediction.interval.low:.3g} to {prediction.interval.high:.3g} samples/s"


def _waiting(written: Prediction) -> str:
    if written.bottleneck == "storage":
        return "it waits for storage"
    count = written.shape.num_workers
    workers = "1 worker" if count == 1 else f"{count or 'no'} workers"
    return f"it waits for data with {workers}"


def _cpus(count: int) -> str:
    return "1 CPU" if count == 1 else f"{count} CPUs"


def _leave(written: Prediction, reason: str) -> Decision:
    return Decision(
        action="leave",
        reason=reason,
        before=written.shape,
        after=written.shape,
        predicted_before=written,
        predicted_after=written,
    )


def _change(written: Prediction, after: Prediction, reason: str) -> Decision:
    return Decision(
        action="change",
        reason=reason,
        before=written.shape,
        after=after.shape,
        predicted_before=written,
        predicted_after=after,
    )


EVERY_UP_TO = 16  # then in steps of an eighth: nobody feels 65 workers against 64


STEPS_A_DOUBLING = 4


@lru_cache(maxsize=1024)
def core_counts(
    written: int, limits: ShapeLimits, may_change: str, least: int = 1
) -> tuple[int, ...]:
    """Core counts, ascending; empty where nothing fits. `may_change`: never | grow | any.

    None is below `least`, but for what the limits ask for.
    """
    most = min(limits.max_cpus_per_task, limits.node_cores)
    if may_change == "never":
        return (written,)
    if may_change == "any":
        return counts(max(1, min(least, most)), most)
    return (written, *counts(written + 1, most))


@lru_cache(maxsize=1024)
def worker_counts(most: int) -> tuple[int, ...]:
    """0 (load in the training process) up to `most`."""
    return (0, *counts(1, most))


def counts(low: int, high: int) -> tuple[int, ...]:
    """Every count up to EVERY_UP_TO, then STEPS_A_DOUBLING a doubling, `high` itself always."""
    chosen = list(range(low, min(high, EVERY_UP_TO) + 1))
    base = EVERY_UP_TO
    while base < high:
        step = base // STEPS_A_DOUBLING
        chosen += [n for n in range(base + step, 2 * base + 1, step) if low <= n < high]
        base *= 2
    if high >= low and (not chosen or chosen[-1] != high):
        chosen.append(high)
    return tuple(chosen)
