"""From measured runs to the chooser of ranks, or to what is missing."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.policy.ranks.choose import choose
from slurm_ext.policy.ranks.evidence import SingleRankRun, evidence_of

GIB = 2.0**30
# One rank on one GPU that works for four tenths of the time: 64 samples in 100 ms.
RUN = SingleRankRun(
    job_id=7,
    batch=64,
    samples_per_s=640,
    accel_samples_per_s=640,
    workers=4,
    ranks=1,
    gpus=1,
    cpus=12,
    elapsed_s=100,
    run_samples=64_000,
    util=0.4,
    mem_bytes=6 * GIB,
)


def test_an_idle_gpu_gets_more_ranks() -> None:
    """The step is told apart into the host's part and the GPU's; the rest is the chooser's."""
    found = evidence_of([RUN, RUN], 40 * GIB)
    assert found.profile is not None
    assert found.room is not None
    assert found.profile.host_s == pytest.approx(0.06)
    assert found.profile.kernel_s == pytest.approx(0.04)
    assert (found.profile.batch, found.profile.workers) == (64, 4)
    assert (found.room.gpus, found.room.cores_per_gpu) == (1, 12)
    assert choose(found.profile, found.room).ranks_per_gpu > 1


def test_a_busy_gpu_keeps_one_rank() -> None:
    """Nor does one whose memory holds no second one: all that it held is counted again."""
    for run in (replace(RUN, util=0.95), replace(RUN, mem_bytes=30 * GIB)):
        found = evidence_of([run], 40 * GIB)
        assert found.profile is not None
        assert found.room is not None
        assert choose(found.profile, found.room).ranks_per_gpu == 1


def test_start_up_does_not_make_a_gpu_look_idle_in_its_steps() -> None:
    """The utilisation of half a run of setting up is spread over the steps that there were."""
    found = evidence_of([replace(RUN, elapsed_s=200, util=0.2)], 40 * GIB)
    assert found.profile is not None
    assert found.profile.kernel_s == pytest.approx(0.04)
    unknown = evidence_of([replace(RUN, run_samples=None)], 40 * GIB)
    assert unknown.profile is not None
    assert unknown.profile.kernel_s == pytest.approx(0.04)


def test_runs_of_the_newest_batch_count() -> None:
    """Another batch is another profile."""
    found = evidence_of([RUN, replace(RUN, batch=128, util=0.9)], 40 * GIB)
    assert found.runs == (RUN,)


@pytest.mark.parametrize(
    ("changes", "memory", "said"),
    [
        ({"gpus": 0, "emulated": True}, 40.0, "the accelerator was emulated (1 of 1 runs)"),
        ({"gpus": 0}, 40.0, "a run on a GPU"),
        ({"shared": True}, 40.0, "another job was on it"),
        ({"ranks": 2}, 40.0, "it had 2 ranks on 1"),
        ({"util": None}, 40.0, "the GPU's utilisation"),
        ({"accel_samples_per_s": 0.0}, 40.0, "whose training loop was measured"),
        ({"mem_bytes": None}, 40.0, "how much GPU memory a rank holds"),
        ({}, 0.0, "how much memory the GPU has"),
    ],
)
def test_what_is_missing_is_said(changes: dict[str, Any], memory: float, said: str) -> None:
    """No guess: nothing is recommended on evidence that is not there."""
    found = evidence_of([replace(RUN, **changes)], memory * GIB)
    assert found.profile is None
    (missing,) = found.missing
    assert said in missing


def test_without_a_run_nothing_is_known() -> None:
    """That is said, too."""
    missing = "a run of it: the history has none (`dlqueue jobs` lists yours)"
    assert evidence_of([], 40 * GIB).missing == (missing,)


def test_impossible_figures_stay_within_the_possible() -> None:
    """More than all of the time on the GPU is all of a step."""
    found = evidence_of([replace(RUN, util=3.0)], 40 * GIB)
    assert found.profile is not None
    assert found.profile.host_s == 0
    assert found.profile.kernel_s == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"gpus": 0, "emulated": True}, "a run on a GPU: the accelerator was emulated"),
        ({"gpus": 0}, "a run on a GPU"),
        ({"shared": True}, "a run with its GPU to itself: another job was on it"),
        ({"ranks": 2}, "a run with one rank on each GPU: it had 2 ranks on 1"),
        ({"util": None}, "the GPU's utilisation: no run counted it (`dlqueue doctor` says why)"),
        ({"batch": 0.0}, "a run whose training loop was measured"),
        ({"samples_per_s": 0.0}, "a run whose training loop was measured"),
    ],
)
def test_each_reason_in_full_with_its_number_of_runs(changes: dict[str, Any], missing: str) -> None:
    """Each once, in the order of the runs."""
    bad = replace(RUN, **changes)
    other = replace(RUN, shared=True, gpus=2)
    assert evidence_of([bad, bad], 40 * GIB).missing == (f"{missing} (2 of 2 runs)",)
    both = evidence_of([bad, other, bad], 40 * GIB).missing
    if "shared" not in changes:
        assert both == (
            f"{missing} (2 of 3 runs)",
            "a run with its GPU to itself: another job was on it (1 of 3 runs)",
        )
    assert evidence_of([bad, RUN], 40 * GIB).runs == (RUN,)


def test_the_room_is_the_newest_run_s() -> None:
    """GPUs, CPUs a GPU, memory, and what its owner allows; unknown CPUs bind nothing."""
    first = replace(RUN, gpus=2, ranks=2, cpus=12)
    room = evidence_of([first, RUN], 40 * GIB, 256).room
    assert room is not None
    assert (room.gpus, room.gpu_mem_bytes, room.cores_per_gpu) == (2, 40 * GIB, 6)
    assert room.most_batch == 256
    unknown = evidence_of([replace(RUN, cpus=None)], 40 * GIB).room
    assert unknown is not None
    assert (unknown.cores_per_gpu, unknown.most_batch) == (float("inf"), None)


def test_the_profile_is_of_medians_and_of_the_most_memory() -> None:
    """A context is not counted twice."""
    runs = [replace(RUN, mem_bytes=held * GIB, util=util) for held, util in ((4, 0.2), (6, 0.5))]
    profile = evidence_of([*runs, replace(RUN, mem_bytes=None, util=0.3)], 40 * GIB).profile
    assert profile is not None
    assert profile.kernel_s == pytest.approx(0.03)
    assert profile.fixed_bytes == 6 * GIB - 600 * 2**20
    assert evidence_of([RUN], None).missing == (
        "how much memory the GPU has (sharing.gpu_mem_mib, or --gpu-mem-mib)",
    )
    nothing = evidence_of([replace(RUN, mem_bytes=0)], 0)
    assert nothing.missing == (
        "how much memory the GPU has (sharing.gpu_mem_mib, or --gpu-mem-mib)",
        "how much GPU memory a rank holds: no run of it counted that",
    )
    assert nothing.runs == (replace(RUN, mem_bytes=0),)
