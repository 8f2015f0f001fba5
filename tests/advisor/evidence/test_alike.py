"""Which runs say something of a submission, and what is told where none does."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.evidence.alike import alike, of_its_kind
from slurm_ext.advisor.evidence.summary import EvidenceSummary, summarize
from slurm_ext.advisor.evidence.whole_run import whole_run_predictor
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.decide import Recommendation, decide
from slurm_ext.core.records import OWN_LEVELS, Level, LoaderRun, Mode, Shape, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.throughput.pooling import OTHER_MODEL_SD
from tests.builders import STARVED

# As a GPU training and a debug run of the same script on the CPU leave them.
ON_GPU = replace(STARVED, emulated=False, gpus=1, on_cpu=0, gpu_model="NVIDIA A100", data_key=7)
ON_CPU = replace(
    STARVED, emulated=False, gpus=0, on_cpu=1, data_key=7, samples_per_s=9, accel_samples_per_s=10
)
STAND_IN = replace(STARVED, gpus=0, on_cpu=0, data_key=7)
GPU_JOB = Submission(
    script="#!/bin/sh\npython3 train.py\n", num_tasks=1, cpus_per_task=8, tres_per_node="gres/gpu:1"
)
CPU_JOB = replace(GPU_JOB, tres_per_node=None)


def summary(job: Submission, *runs: LoaderRun, level: Level = Level.SCRIPT_ARGS) -> EvidenceSummary:
    """What a decision takes from these runs."""
    return summarize({level: list(runs)}, None, OWN_LEVELS, job)


def decided(job: Submission, *runs: LoaderRun, level: Level = Level.SCRIPT_ARGS) -> Recommendation:
    """The decision of a site that acts and may change any CPUs."""
    values = {"site.mode": "act", "policy.holdout_share": 0.0, "policy.change_explicit": "any"}
    context = DecisionContext(
        settings=Settings(values=values),
        evidence={level: list(runs)},
        rules=PartitionRules(cpus_per_node=16),
    )
    return decide(job, context)


def test_a_debug_run_on_the_cpu_does_not_change_the_next_gpu_job() -> None:
    """One such run cut `-c 8 --gres=gpu:1` to two cores; the GPU runs before it still answer."""
    made = decided(GPU_JOB, ON_CPU)
    assert made.decision is not None
    assert (made.decision.action, made.estimate, made.message) == ("leave", None, None)
    assert made.why == "I do not know yet: its runs had no GPU"
    with_debug, without = decided(GPU_JOB, ON_CPU, ON_GPU), decided(GPU_JOB, ON_GPU)
    assert with_debug == without
    assert without.decision is not None
    assert without.decision.action == "change"


def test_gpu_runs_say_nothing_of_a_job_without_one() -> None:
    """The other way round; a stand-in for a GPU is as good there as it was."""
    why = "I do not know yet: its runs had GPUs, and it asks for none"
    assert decided(CPU_JOB, ON_GPU).why == why
    assert decided(CPU_JOB, ON_GPU, ON_CPU) == decided(CPU_JOB, ON_CPU)
    assert summary(CPU_JOB, STAND_IN).estimate is not None
    assert summary(GPU_JOB, STAND_IN).why_none == "I do not know yet: its runs had no GPU"
    assert summary(GPU_JOB, replace(STAND_IN, gpus=1)).estimate is not None


@pytest.mark.parametrize(
    ("job", "run", "fits"),
    [
        (GPU_JOB, replace(ON_GPU, on_cpu=1), False),  # it had a GPU, and did not use it
        (CPU_JOB, replace(ON_GPU, on_cpu=1), True),
        (GPU_JOB, replace(ON_GPU, gpus=0), True),  # it found one that Slurm does not count
        (replace(CPU_JOB, shared=0), ON_GPU, True),  # a whole node, with its GPUs
        (replace(CPU_JOB, tres_per_node="gres/mps:50"), ON_GPU, True),
        (replace(CPU_JOB, tres_per_job="gres/gpu:a100:1"), ON_CPU, False),
    ],
)
def test_accelerators_are_those_of_the_training(
    job: Submission, run: LoaderRun, fits: bool
) -> None:
    """Whichever way the job asks, and wherever the run found its GPU."""
    assert bool(of_its_kind({Level.SCRIPT: [run]}, job)) is fits


def test_another_model_of_gpu_widens_and_the_same_one_is_preferred() -> None:
    """An A100's rate is no H100's, though the loader's costs are the same."""
    asks = replace(GPU_JOB, tres_per_node="gres/gpu:h100:1")
    on_h100 = replace(ON_GPU, gpu_model="NVIDIA H100 80GB HBM3", accel_samples_per_s=900)
    far, near = summary(asks, ON_GPU).estimate, summary(asks, ON_GPU, on_h100).estimate
    assert far is not None
    assert near is not None
    assert far.accel.log_sd > OTHER_MODEL_SD > 5 * near.accel.log_sd
    assert near == summary(asks, on_h100).estimate
    large = replace(GPU_JOB, tres_per_node="gres/gpu:large:1")  # a name that says no model
    assert alike({Level.SCRIPT: [ON_GPU]}, large).accel_sd == 0.0


def test_other_numbers_of_gpus_widen_a_little() -> None:
    """Runs on as many answer alone; else the newest ones, wider with each doubling."""
    asks = replace(GPU_JOB, tres_per_node="gres/gpu:4")
    four = replace(ON_GPU, gpus=4, ranks=4)
    assert alike({Level.SCRIPT: [ON_GPU, four]}, asks).evidence == {Level.SCRIPT: [four]}
    assert alike({Level.SCRIPT: [four]}, asks).accel_sd == 0.0
    widths = [alike({Level.SCRIPT: [replace(four, gpus=n)]}, asks).accel_sd for n in (4, 2, 1)]
    assert widths[0] < widths[1] < widths[2] < 0.2
    two_nodes = replace(four, gpus=2, nodes=2)
    assert 0 < alike({Level.SCRIPT: [two_nodes]}, asks).accel_sd < 0.2


@pytest.mark.parametrize(
    ("asked", "is_the_same"),
    [("gres/gpu:a100:1", True), ("gres/gpu:h100:1", False), ("gres/gpu:a100:2", False)],
)
def test_a_rate_is_told_as_it_ran_on_the_same_gpus_alone(asked: str, is_the_same: bool) -> None:
    """A rate that an A100 showed is no measurement of an H100, or of two A100s."""
    job = replace(GPU_JOB, tres_per_node=asked)
    known = summary(job, ON_GPU, ON_GPU)
    assert known.estimate is not None
    shape = Shape(cpus_per_task=int(ON_GPU.cores), num_workers=ON_GPU.workers)
    told, curve = (
        whole_run_predictor(known.estimate, None, (1.0, 1.0), known.whole, as_measured=measured)
        for measured in (True, False)
    )
    assert told.ran(shape) is is_the_same
    assert (told(shape) != curve(shape)) is is_the_same


def test_runs_over_other_data_are_left_out() -> None:
    """Those like the newest of the same script and arguments answer, on every level."""
    old = replace(ON_GPU, data_key=8, batch_size=256)
    unknown = replace(ON_GPU, data_key=None, batch_size=33)
    evidence = {
        Level.SCRIPT_ARGS: [ON_GPU, old, unknown],
        Level.SCRIPT: [old, ON_GPU],
        Level.KIND: [old],
        Level.CLUSTER: [old],
    }
    assert of_its_kind(evidence, GPU_JOB) == {
        Level.SCRIPT_ARGS: [ON_GPU, unknown],
        Level.SCRIPT: [ON_GPU],
        Level.CLUSTER: [old],
    }


def test_contradictions_are_named_and_do_not_silence_for_ever() -> None:
    """What differs is told; three newest runs that agree answer again."""

    def wild(by: float, **values: Any) -> LoaderRun:
        steps: dict[str, Any] = {"samples_per_s": 48 * by, "accel_samples_per_s": 400 * by}
        return replace(ON_GPU, **steps, fetch_wall_s=0.02 / by, fetch_cpu_s=0.018 / by, **values)

    runs = [wild(20.0**n, threads=1 + n) for n in range(3)]
    why = summary(GPU_JOB, *runs).why_none
    assert why == "I do not know: 3 runs like this one contradict each other: 1 and 2 and 3 threads"
    again = summary(GPU_JOB, *[ON_GPU] * 3, *runs)
    assert again.estimate is not None
    assert again.estimate.runs == 3
    assert summary(GPU_JOB, ON_GPU, *runs[1:]).estimate is None
    alone = replace(runs[0], threads=None), replace(runs[2], threads=None)
    assert summary(GPU_JOB, *alone).why_none.endswith(": 48 to 1.92e+04 samples/s")


def test_an_array_whose_tasks_differ_is_told_so() -> None:
    """One decision holds for all of its tasks; that of the newest is no more than its own."""
    other = replace(ON_GPU, data_key=8, batch_size=256)
    array = replace(GPU_JOB, array="0-3")
    why = summary(array, ON_GPU, other).why_none
    assert why == "the tasks of its array differ: batches of 32 and 256"
    assert summary(array, ON_GPU, ON_CPU).estimate is not None
    assert summary(GPU_JOB, ON_GPU, other).estimate is not None


@pytest.mark.parametrize("level", [Level.OWN_KIND, Level.USER_NAME])
def test_runs_of_other_arguments_act_only_where_they_agree(level: Level) -> None:
    """One says too little, several sets of data are several programs, unknown data is none."""
    one, other = ON_GPU, replace(ON_GPU, data_key=8)
    starved = replace(GPU_JOB, cpus_per_task=4)
    agreed = decided(starved, *[one] * 6, level=level)
    assert (agreed.mode, agreed.why_advice) == (Mode.ACT, "")
    for runs in ([one, other] * 3, [replace(one, data_key=None)] * 6):
        made = decided(starved, *runs, level=level)
        assert made.mode is Mode.ADVISE
        assert made.why_advice in str(made.message)
        assert made.why_advice
    assert decided(starved, one, level=level).mode is not Mode.ACT or level is Level.OWN_KIND


def test_no_job_gives_up_cores_for_what_other_arguments_needed() -> None:
    """`train.py 0` idled on eight cores; `train.py 2` may well use them."""
    costs: dict[str, Any] = {"fetch_wall_s": 0.001, "fetch_cpu_s": 0.001, "used_cores": 0.6}
    idle = replace(ON_GPU, **costs, samples_per_s=390)
    near = decided(GPU_JOB, *[idle] * 6).decision
    far = decided(GPU_JOB, *[idle] * 6, level=Level.USER_NAME).decision
    assert near is not None
    assert far is not None
    assert near.after.cpus_per_task < 8 <= far.after.cpus_per_task
