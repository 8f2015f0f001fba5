"""How many processes a submitted job has: what is told is the whole job's, by whomever's runs."""

from dataclasses import replace

import pytest

from slurm_ext.advisor.evidence.job_ranks import ranks_by_others, ranks_of
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.decide import decide
from slurm_ext.advisor.service.recommendation_json import recommendation_json
from slurm_ext.cli.explain.text import document_ranks
from slurm_ext.core.records import Level, LoaderRun, Submission
from slurm_ext.core.settings.document import Settings
from tests.builders import STARVED

ON_GPU = replace(STARVED, emulated=False, gpus=1, nodes=1, on_cpu=0, ranks=1, data_key=7)
ON_CPU = replace(STARVED, emulated=False, gpus=0, on_cpu=1, ranks=8, data_key=7)
JOB = Submission(script="python3 train.py", num_tasks=2, cpus_per_task=4)
GPU_JOB = replace(JOB, num_tasks=1, min_nodes=1, tres_per_node="gres/gpu:4")


@pytest.mark.parametrize(
    ("gpus", "tasks", "runs", "expected"),
    [
        (4, 1, [ON_GPU], 4),
        (4, 1, [replace(ON_GPU, gpus=4)], 1),  # one process that drives all
        (2, 1, [replace(ON_GPU, gpus=4, nodes=2, ranks=8)], 2),
        (4, 1, [replace(ON_GPU, ranks=None), replace(ON_GPU, ranks=2)], 8),
        (0, 2, [ON_CPU], 8),
        (0, 2, [ON_GPU], 2),
        (4, 1, [ON_CPU], 4),
        (0, 3, [], 3),
    ],
)
def test_ranks_are_as_many_a_gpu_as_the_newest_run_had(
    gpus: int, tasks: int, runs: list[LoaderRun], expected: int
) -> None:
    """Without GPUs as many as it had; where no run tells, one a GPU or a task."""
    assert ranks_of(gpus, tasks, runs) == expected


def test_other_users_tell_how_many_processes_a_gpu_has_and_no_more() -> None:
    """Their tasks on CPUs are theirs; a run of one's own comes first, whatever it failed at."""
    shared = replace(ON_GPU, ranks=2)
    assert ranks_by_others(GPU_JOB, [], [shared]) == 8
    assert ranks_by_others(GPU_JOB, [ON_GPU], [shared]) == 4
    assert ranks_by_others(JOB, [], [ON_CPU]) == 2
    assert ranks_by_others(JOB, [ON_CPU], []) == 8


def test_a_prediction_by_other_users_is_told_for_the_whole_job() -> None:
    """Four GPUs are told four times a process's rate, as `explain` tells it afterwards."""
    settings = Settings(values={"site.mode": "advise", "policy.holdout_share": 0.0})
    told = []
    for job in (replace(GPU_JOB, tres_per_node="gres/gpu:1"), GPU_JOB):
        context = DecisionContext(settings=settings, evidence={Level.KIND: [ON_GPU] * 3})
        made = decide(job, context)
        assert made.of_others
        after = recommendation_json(context, made, None, None)["predicted_after"]
        assert made.decision is not None
        assert made.decision.predicted_after is not None
        each = made.decision.predicted_after.samples_per_s
        assert after["samples_per_s"] == pytest.approx(made.whole.ranks * each)
        told.append(made.whole.ranks)
    assert told == [1, 4]


def test_explain_multiplies_by_the_ranks_that_were_told() -> None:
    """A decision says for how many it was; one of an older dlqueue leaves it to the runs."""
    runs = [{"loader_ranks": 2}]
    past = [{"ranks": 3}]
    assert document_ranks({"decision": {"ranks": 4}, "runs": runs, "past": past}) == 4
    assert document_ranks({"decision": {"ranks": None}, "runs": runs, "past": past}) == 2
    assert document_ranks({"decision": {}, "runs": [], "past": past}) == 3
    assert document_ranks({"decision": None, "runs": [], "past": []}) == 1
