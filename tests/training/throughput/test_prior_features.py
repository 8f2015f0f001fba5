"""The learned prior is asked with the numbers that it was trained on."""

from dataclasses import fields
from typing import Any

import pytest

from slurm_ext.advisor.evidence.prior import Priors
from slurm_ext.advisor.pipeline.script import read_script
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.records import LoaderRun
from slurm_ext.history.views.columns import TRAINING_COLUMNS
from slurm_ext.model.throughput.features import PriorInput, features
from slurm_ext.node.common.job import allocation
from slurm_ext.training.throughput.dataset import examples

SUMMARY = {
    "rank": 0,
    "world_size": 1,
    "cores": 4,
    "accelerator": "A100",
    "loaders": [
        {
            "batch_size": 32,
            "phases": [
                {
                    "phase": "later",
                    "epochs": 1,
                    "samples": 3200,
                    "batches": 100,
                    "workers": 2,
                    "wall_s": 10.0,
                    "step_s": 8.0,
                    "fetch_samples": 3200,
                    "fetch_wall_s": 15.0,
                    "fetch_cpu_s": 12.0,
                }
            ],
        }
    ],
}


class Model:
    """An artifact that keeps what it is asked about."""

    name = "seen"

    def __init__(self) -> None:
        self.asked: list[PriorInput] = []

    def prior(self, known: PriorInput) -> None:
        """Note the facts."""
        self.asked.append(known)


def record(env: dict[str, str]) -> dict[str, Any]:
    """What the hooks of one node write of a job with this environment."""
    told = allocation(env) | {"cpus_per_task": 4, "num_tasks": 1}
    return {
        "allocation": told,
        "probe": {"summaries": [SUMMARY]},
        "outcome": {"state": "COMPLETED"},
        "host": {"cores": 8, "gpus": []},
    }


@pytest.mark.parametrize(
    ("head", "nodes", "listed"),
    [
        ("-c 4", "1", ""),
        ("--gpus-per-node=2 -N 2", "2", "0,1"),
        ("--gpus=4 -N 2", "2", "2,3"),
        ("--gpus-per-task=1 -n 4", "1", "0,1,2,3"),
        ("--gpus=1 --cpus-per-gpu=4", "1", "3"),
        ("--gres=gpu:a100:2", "1", "0,1"),
        ("--gres=mps:50", "1", "0"),
        ("--gres=shard:1", "1", "1"),
    ],
)
def test_a_submission_and_its_record_have_the_same_features(
    head: str, nodes: str, listed: str
) -> None:
    """Served from the request, trained from the node's record: one vector."""
    job = read_script(
        f"#!/bin/bash\n#SBATCH -p gpu {head}\npython3 train.py\n", "job.sh", user_name="ada"
    )
    keys, model = keys_of(job), Model()
    Priors(model).prior_of(job, keys)  # type: ignore[arg-type]  # as much of an artifact as it asks

    run = loader_run(record({"SLURM_JOB_NUM_NODES": nodes, "SLURM_JOB_GPUS": listed}))
    assert run is not None
    row: dict[str, Any] = dict.fromkeys(TRAINING_COLUMNS)
    row |= {field.name: getattr(run, field.name) for field in fields(LoaderRun)}
    row |= {f"key_{level.name.lower()}": key for level, key in keys.items()}
    row |= {"end_s": 1e9, "user": "ada", "partition": "gpu"}
    (example,) = examples([tuple(row[name] for name in TRAINING_COLUMNS)], TRAINING_COLUMNS)
    assert features(model.asked[0]) == features(example.known)
