"""How a GPU is asked for: what may become a part of one, what goes with it, and what may not."""

from typing import Any

import pytest

from slurm_ext.advisor.sharing.gpu_request import WholeGpuRequest, whole_gpu_request
from slurm_ext.core.records import Submission


def asked(script: str = "#!/bin/bash\nsrun python3 train.py\n", **fields: Any) -> Any:
    """What is made of a job with these fields."""
    return whole_gpu_request(Submission(script=script, **fields))


@pytest.mark.parametrize(
    ("fields", "whole"),
    [
        ({"tres_per_node": "gres:gpu:1"}, WholeGpuRequest()),
        ({"tres_per_node": "gres/gpu:1"}, WholeGpuRequest()),
        ({"tres_per_node": "gres:gpu"}, WholeGpuRequest()),
        ({"tres_per_node": "gres:gpu:a100:1"}, WholeGpuRequest(gpu_type="a100")),
        ({"tres_per_node": "gres/gpu:a100=1"}, WholeGpuRequest(gpu_type="a100")),
        (
            {"tres_per_node": "gres:gpu:1", "env": {"SLURM_GPUS_PER_NODE": "1"}},
            WholeGpuRequest(stale=("SLURM_GPUS_PER_NODE",)),
        ),
        (
            {"tres_per_job": "gres:gpu:1", "env": {"SLURM_GPUS": "1"}},
            WholeGpuRequest(emptied=("tres_per_job",), stale=("SLURM_GPUS",)),
        ),
        (
            {
                "tres_per_task": "gres/gpu=1",
                "tres_bind": "gres/gpu:per_task:1",
                "env": {"SLURM_GPUS_PER_TASK": "1", "SLURM_TRES_BIND": "gres/gpu:per_task:1"},
            },
            WholeGpuRequest(
                emptied=("tres_per_task", "tres_bind"), stale=("SLURM_GPUS_PER_TASK",), bound=True
            ),
        ),
        ({"tres_per_node": "gres/gpu:1", "tres_per_task": "cpu=4"}, WholeGpuRequest()),
    ],
)
def test_one_gpu_in_each_of_slurms_ways(fields: dict[str, Any], whole: WholeGpuRequest) -> None:
    """What asked for the GPU, and what would have steps ask again, is named to be cleared."""
    assert asked(**fields) == whole


@pytest.mark.parametrize("gres", [None, "", "gres:mps:50", "gres/shard:2", "license:x:1", "cpu=4"])
def test_without_a_whole_gpu_there_is_nothing_to_share(gres: str | None) -> None:
    """No GPU, or a part of one already: none of our business."""
    assert asked(tres_per_node=gres) is None


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tres_per_node": "gres:gpu:2"}, "more than one GPU"),
        ({"tres_per_node": "gres:gpu:0"}, "more than one GPU"),
        ({"tres_per_node": "gres:gpu:1", "tres_per_job": "gres:gpu:1"}, "more than one GPU"),
        ({"tres_per_node": "gres:gpu:a100:1,gres:gpu:v100:1"}, "more than one GPU"),
        ({"tres_per_socket": "gres:gpu:1"}, "every socket"),
        ({"tres_per_node": "gres:gpu:1", "num_tasks": 2}, "several tasks"),
        ({"tres_per_node": "gres:gpu:1,gres:bandwidth:4"}, "something else"),
        ({"tres_per_node": "gres:nic:1", "tres_per_job": "gres:gpu:1"}, "something else"),
        ({"tres_per_task": "cpu=4,gres/gpu=1"}, "something else"),
        ({"tres_per_job": "gres:gpu:1", "mem_per_tres": "gres:gpu:100"}, "memory goes by"),
        ({"tres_per_job": "gres:gpu:1", "ntasks_per_tres": 1}, "tasks go by"),
        ({"tres_per_job": "gres:gpu:1", "tres_freq": "gpu:low"}, "frequency"),
        ({"tres_per_job": "gres:gpu:1", "cpus_per_tres": "gres:gpu:4"}, "CPUs go by"),
        ({"tres_per_job": "gres:gpu:1", "tres_bind": "gpu:closest"}, "binds"),
        (
            {"tres_per_task": "gres/gpu=1", "env": {"SLURM_TRES_PER_TASK": "gres/gpu=1"}},
            "steps ask",
        ),
    ],
)
def test_what_slurm_would_reject_or_change_is_left_whole(fields: dict[str, Any], why: str) -> None:
    """Anything beside exactly one GPU of one task stays as it is, with the reason."""
    assert why in asked(**fields)


@pytest.mark.parametrize(
    ("script", "shares"),
    [
        ("#!/bin/bash\n#SBATCH --gres=gpu:1\nsrun python3 train.py\n", True),
        ("#!/bin/bash\npython3 train.py --gpus 1\n", True),
        ("#!/bin/bash\necho $SLURM_GPUS_ON_NODE\n", True),
        ("#!/bin/bash\nsrun --gres=gpu:1 python3 train.py\n", False),
        ("#!/bin/bash\nsrun -n1 \\\n  --gpus=1 python3 train.py\n", False),
        ("#!/bin/bash\nsrun -G1 python3 train.py\n", False),
        ("#!/bin/bash\ntorchrun --nproc_per_node=$SLURM_GPUS train.py\n", False),
        ("#!/bin/bash\necho ${SLURM_GPUS_PER_NODE}\n", False),
    ],
)
def test_a_script_that_needs_the_whole_gpus_words_keeps_them(script: str, shares: bool) -> None:
    """A step that asks for a GPU would fail in a job without one, and so would a lost variable."""
    found = asked(script, tres_per_node="gres:gpu:1")
    assert isinstance(found, WholeGpuRequest) is shares
