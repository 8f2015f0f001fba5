"""What a job is promised by the controller: its share as its script is written."""

from dataclasses import replace

from slurm_ext.control.allocator.job_curve import baseline, fit, points_of, utilisation
from slurm_ext.control.allocator.measure import WorkerBounds
from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.model.throughput.estimate import estimate

READS = LoaderRun(
    samples_per_s=120.0,
    workers=2,
    cores=0.5,
    batch_size=8,
    accel_samples_per_s=350.0,
    fetch_wall_s=0.0166,
    fetch_cpu_s=0.0003,
    main_cpu_s=0.0003,
    emulated=True,
)


def test_the_promise_is_the_share_with_the_scripts_own_workers() -> None:
    """More workers make more of the same share, and the promise does not rise with them."""
    known = estimate({Level.SCRIPT_ARGS: [READS]})
    knob = WorkerBounds(now=10, least=1, most=10, baseline=2)
    promised = baseline(known, knob, 2, grain_cores=0.25, ranks=1)
    assert promised is not None
    assert (promised.units, promised.workers) == (2, 2)
    assert abs(promised.samples_per_s / READS.samples_per_s - 1) < 0.1
    best = points_of(known, knob, 8, grain_cores=0.25, ranks=1)[1]
    assert best.samples_per_s > 2 * promised.samples_per_s


def test_nothing_is_promised_of_what_is_not_known() -> None:
    """Without a curve the policy keeps the job at its share."""
    assert (
        baseline(None, WorkerBounds(now=2, least=1, most=8, baseline=2), 2, grain_cores=1, ranks=1)
        is None
    )


def test_windows_that_contradict_each_other_leave_the_newest() -> None:
    """A wait for cores that hid what a step takes is no reason to know nothing any more."""
    hidden = replace(READS, accel_samples_per_s=90_000.0)
    runs = (READS, hidden, READS, hidden, hidden)
    assert estimate({Level.SCRIPT_ARGS: list(runs)}) is None
    assert fit(None, runs) is not None
    assert fit(None, ()) is None


def test_what_is_lent_comes_on_top() -> None:
    """As many workers as make most of the node, where they cost nothing within the job's share."""
    decodes = replace(READS, samples_per_s=28.0, fetch_cpu_s=0.016, cores=0.5)
    known = estimate({Level.SCRIPT_ARGS: [decodes]})
    knob = WorkerBounds(now=2, least=1, most=10, baseline=2)
    own = points_of(known, knob, 8, grain_cores=0.25, ranks=1)[1]
    lent = points_of(known, knob, 8, grain_cores=0.25, ranks=1, lends=True)[1]
    assert own.workers == 1
    assert lent.workers is not None
    assert lent.workers > 1
    assert lent.samples_per_s >= 0.99 * own.samples_per_s


def test_how_much_of_its_cores_a_job_uses() -> None:
    """A reader that sleeps uses a part of them; one that decodes uses all, however many workers."""
    reads = estimate({Level.SCRIPT_ARGS: [READS]})
    decodes = estimate({Level.SCRIPT_ARGS: [replace(READS, samples_per_s=28.0, fetch_cpu_s=0.016)]})
    assert reads is not None
    assert decodes is not None
    assert utilisation(reads, 0.5, 2, ranks=1) < 0.3
    assert utilisation(decodes, 0.5, 4, ranks=1) > 0.85
    assert utilisation(decodes, 4.0, 2, ranks=1) < 0.85
