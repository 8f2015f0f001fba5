"""The histogram of fetches: percentiles to an eighth, in constant memory, through a file."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.probe.counters.fetching import WorkersTotals
from slurm_ext.probe.stalls import fetch_file
from slurm_ext.probe.stalls.fetch_times import SIZE, FetchTimes, parse

WITHIN = st.floats(1.01e-4, 160.0)  # seconds that have a bin of their own


def histogram(seconds: list[float]) -> FetchTimes:
    """Of fetches that took so long."""
    times = FetchTimes()
    for one in seconds:
        times.add(one, 1)
    return times


@given(st.lists(WITHIN, min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_is_right_to_an_eighth(seconds: list[float], share: float) -> None:
    """Against the exact one, by rank."""
    exact = float(np.quantile(seconds, share, method="inverted_cdf"))
    assert histogram(seconds).percentile_s(share) == pytest.approx(exact, rel=0.125)


def test_what_is_shorter_or_longer_than_all_bins_is_in_the_first_and_the_last() -> None:
    """Nothing is lost; no fetch at all has no percentile."""
    assert FetchTimes().percentile_s(0.5) is None
    assert (histogram([0.0, 1e-9]).percentile_s(0.5) or 1) <= 1e-4
    assert (histogram([1e9]).percentile_s(0.5) or 0) > 140


def test_one_slow_fetch_in_fifty_is_seen_in_the_99th_percentile() -> None:
    """And leaves the median as it is."""
    times = histogram([0.01] * 49 + [0.25])
    assert times.percentile_s(0.5) == pytest.approx(0.01, rel=0.125)
    assert times.percentile_s(0.99) == pytest.approx(0.25, rel=0.125)


@given(st.lists(WITHIN, max_size=50), st.lists(WITHIN, max_size=50))
def test_sums_and_differences_are_histograms(before: list[float], after: list[float]) -> None:
    """A pass's fetches are those since it began; processes add up, from nothing on."""
    both = histogram(before + after)
    assert both.since(histogram(before)).counts == histogram(after).counts
    assert sum([histogram(before), histogram(after)], FetchTimes()).counts == both.counts
    assert (0 + both).counts == both.counts


def test_a_worker_publishes_bin_by_bin(tmp_path: Path) -> None:
    """The training process reads what the worker counted, beside the totals."""
    path = fetch_file.path_of(str(tmp_path), 7)
    assert fetch_file.read(path)[1].percentile_s(0.5) is None
    target, times = fetch_file.FetchFile(path), FetchTimes()
    for seconds, stands_for in ((0.01, 1), (2.0, 16), (0.01, 1)):
        place = times.add(seconds, stands_for)
        target.publish((1.0,) * 8, times, place)
    assert fetch_file.read(path)[1].counts == times.counts
    assert fetch_file.read(path)[0] == (1.0,) * 8
    assert sum(times.counts) == 18


def test_a_file_that_is_not_whole_is_an_empty_histogram() -> None:
    """Such as one that was just made."""
    assert parse(b"\0" * (SIZE - 1)).counts == FetchTimes().counts


def test_what_workers_fetched_before_their_pass_was_made_counts(tmp_path: Path) -> None:
    """They start first; those that last do so again, after a pass that ended before."""
    worker, times = fetch_file.FetchFile(fetch_file.path_of(str(tmp_path), 7)), FetchTimes()

    def fetched(batches: int) -> None:
        while sum(times.counts) < batches:
            place = times.add(0.01, 1)
        worker.publish((4.0 * batches, float(batches), *[0.0] * 6), times, place)

    def counted(one: WorkersTotals) -> tuple[float, float, int]:
        samples, batches, *_ = one.added_to((0.0,) * 8)
        return samples, batches, sum(one.times_with(FetchTimes()).counts)

    first, second = WorkersTotals(str(tmp_path)), WorkersTotals(str(tmp_path))
    fetched(2)
    first.join((7,))
    fetched(5)
    first.end()
    fetched(6)
    second.join((7, 8), first)
    fetched(9)
    assert (counted(first), counted(second)) == ((20.0, 5.0, 5), (16.0, 4.0, 4))
