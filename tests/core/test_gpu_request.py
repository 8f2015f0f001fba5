"""A request's GPUs: one table of requests for everything that counts them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.advisor.pipeline.sbatch_options import options_of
from slurm_ext.advisor.pipeline.script import read_script
from slurm_ext.advisor.what_if.layout import request_of, written_layout
from slurm_ext.advisor.what_if.runtime_estimates import wanted_of
from slurm_ext.core.gpu_request import (
    Gres,
    allocated_gpus,
    devices_per_node,
    gpus_in,
    gpus_of,
    gres_of_option,
    nodes_of,
    parse_gres,
    tasks_of,
)
from slurm_ext.core.records import Submission
from slurm_ext.slurm.job_json import read_jobs

# Options as a user types them, GPUs of the whole job, and of its fullest node.
SCRIPTS = [
    ("", 0, 0),
    ("--gres=gpu", 1, 1),
    ("--gres=gpu:2", 2, 2),
    ("--gres=gpu:a100:2", 2, 2),
    ("--gres=gpu:a100", 1, 1),
    ("--gres=gpu:2 -N 2", 4, 2),
    ("--gres=tmp:5,gpu:a100:1 -N 3", 3, 1),
    ("--gres=gpu:a100:1,gpu:h100:2", 3, 3),
    ("--gpus=1", 1, 1),
    ("-G 1", 1, 1),
    ("--gpus=h100", 1, 1),
    ("--gpus=h100:4", 4, 4),
    ("--gpus=h100:2,a100:1", 3, 3),
    ("--gpus=4 -N 2", 4, 2),
    ("--gpus=3 -N 2", 3, 2),
    ("--gpus=1 --cpus-per-gpu=4", 1, 1),
    ("--gpus=4 -n 4", 4, 4),
    ("--gpus=4 -N 2 --gpus-per-node=2", 4, 2),
    ("--gpus-per-node=2", 2, 2),
    ("--gpus-per-node=2 -N 2", 4, 2),
    ("--gpus-per-node=a100:2 -N 2-4", 4, 2),
    ("--gpus-per-task=1", 1, 1),
    ("--gpus-per-task=1 -n 4", 4, 4),
    ("--gpus-per-task=1 -N 2", 2, 1),
    ("--gpus-per-task=1 -N 2 -n 4", 4, 2),
    ("--gpus-per-task=2 -N 2 --ntasks-per-node=3", 12, 6),
    ("--gpus-per-task=1 -n 4 --gpus-per-node=2 -N 2", 4, 2),
    ("--gpus-per-socket=2", 2, 2),
    ("--gpus-per-socket=1 -N 2", 2, 1),
    ("--ntasks-per-gpu=2 -n 4", 2, 2),
    ("--ntasks-per-gpu=2 -n 5 -N 3", 3, 1),
    ("--ntasks-per-gpu=2 --gpus=3", 3, 3),
    ("--gres=mps:50", 0, 1),
    ("--gres=shard:2 -N 2", 0, 1),
    ("--gres=mps:0", 0, 0),
    ("--gres=license:1", 0, 0),
    ("-n 4", 0, 0),
]
VARIED = [head for head, _, _ in SCRIPTS if "ntasks-per-gpu" not in head]


def job_of(head: str) -> Submission:
    """What a script with these options submits."""
    return read_script(f"#!/bin/bash\n#SBATCH {head}\n", "job.sh")


@pytest.mark.parametrize(("head", "whole", "on_node"), SCRIPTS)
def test_every_way_of_asking_counts_the_same_gpus(head: str, whole: int, on_node: int) -> None:
    """The whole job's GPUs, and those that one node of it lists; CPUs by GPU are no GPUs."""
    job = job_of(head)
    assert (gpus_of(job), devices_per_node(job)) == (whole, on_node)


@pytest.mark.parametrize(("head", "whole", "on_node"), SCRIPTS)
def test_what_if_and_run_times_count_as_the_table_does(head: str, whole: int, on_node: int) -> None:
    """`predict --what-if` varies the whole job; run times are learnt from records of a node."""
    job = job_of(head)
    assert wanted_of(job, 0.0).gpus == on_node
    request = request_of(options_of(job.script or "", "job.sh"))
    if request is not None and head in VARIED:
        assert written_layout(job, request, 0, ()).gpus == whole


@pytest.mark.parametrize("prefix", ["gpu:", "gres:gpu:", "gres/gpu:", "gres/gpu="])
@pytest.mark.parametrize(("head", "whole", "on_node"), SCRIPTS)
def test_slurm_and_its_queue_count_as_the_script_does(
    head: str, whole: int, on_node: int, prefix: str
) -> None:
    """The spellings of each release, in a submission and in `squeue --json`."""
    written = job_of(head)
    units = ("node", "job", "task", "socket")
    lists: dict[str, Any] = {
        f"tres_per_{unit}": (getattr(written, f"tres_per_{unit}") or "").replace("gpu:", prefix)
        for unit in units
    }
    changed = Submission(
        **lists,
        num_tasks=written.num_tasks,
        ntasks_per_node=written.ntasks_per_node,
        min_nodes=written.min_nodes,
        ntasks_per_tres=written.ntasks_per_tres,
    )
    assert (gpus_of(changed), devices_per_node(changed)) == (whole, on_node)
    squeue = {"job_id": 1, "user_id": 1, "job_state": ["PENDING"], **lists}
    squeue |= {"node_count": nodes_of(written), "tasks": tasks_of(written)}
    (info,) = read_jobs(json.dumps({"jobs": [squeue]}))
    if head in VARIED:
        assert (info.gpus or 0) == whole


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (None, []),
        ("", []),
        (" , ", []),
        ("(null)", []),
        ("gpu", [("gpu", "", 1)]),
        ("gpu:0", [("gpu", "", 0)]),
        ("gres:gpu:a100:4", [("gpu", "a100", 4)]),
        ("gres/gpu:1g.10gb=3", [("gpu", "1g.10gb", 3)]),
        ("gpu:a100:2(S:0,1),mps:200", [("gpu", "a100", 2), ("mps", "", 200)]),
        ("gpu:2(S:0", [("gpu", "", 2)]),
        ("cpu=4,gres/gpu=1", [("cpu", "", 4), ("gpu", "", 1)]),
        ("bandwidth:4K,x:2m", [("bandwidth", "", 4096), ("x", "", 2 << 20)]),
        ("x:1G,y:1T", [("x", "", 1 << 30), ("y", "", 1 << 40)]),
        ("gpu:999999999999", [("gpu", "", 999999999999)]),
        ("gpu:9999999999999", [("gpu", "9999999999999", 1)]),
        ("gpu:٣", [("gpu", "٣", 1)]),
        ("gpu:-1", [("gpu", "-1", 1)]),
        ("gpu:", [("gpu", "", 1)]),
        ("not_gpu:2", [("not_gpu", "", 2)]),
    ],
)
def test_items_of_a_list(text: str | None, items: list[tuple[str, str, int]]) -> None:
    """Kind, type and count of each; sockets are left out, and odd text is a type."""
    assert list(parse_gres(text)) == [Gres(*item) for item in items]


@pytest.mark.parametrize("text", ["(" * 100_000, "gpu:" * 50_000, "," * 100_000, "9" * 100_000])
def test_a_long_text_takes_no_time(text: str) -> None:
    """Linear in the text: a list may be any user's."""
    assert gpus_in(text) >= 0


@given(st.text(max_size=60))
def test_any_text_has_a_count(text: str) -> None:
    """No text of a user brings the parser down, or has GPUs below zero."""
    assert gpus_in(text) >= 0
    assert gpus_of(Submission(tres_per_job=text, gres=text)) >= 0


@given(st.text(st.characters(exclude_characters=",():=/"), min_size=1, max_size=9))
def test_a_type_survives(name: str) -> None:
    """A typed list gives its type back, whatever the site calls its GPUs."""
    plain = name.strip()
    (item,) = parse_gres(f"gres/gpu:{plain}:2") if plain == name else [Gres("gpu", name, 2)]
    assert item == Gres("gpu", name, 2)


def test_early_requests_joined_all_lists() -> None:
    """Version 1 of the protocol began with one field; CPUs by GPU in it are never GPUs."""
    assert gpus_of(Submission(gres="gres:gpu:2")) == 2
    assert gpus_of(Submission(gres="gres:gpu:4", cpus_per_tres="gres:gpu:4")) == 0
    assert gpus_of(Submission(gres="gres:gpu:9", tres_per_job="gres:gpu:1")) == 1


@pytest.mark.parametrize(
    ("option", "value", "gres"),
    [
        ("gres", "gpu:2,tmp:1", "gpu:2,tmp:1"),
        ("gpus", "2", "gpu:2"),
        ("gpus-per-node", "a100:2,h100", "gpu:a100:2,gpu:h100"),
        ("gpus", "", ""),
    ],
)
def test_an_option_becomes_a_list(option: str, value: str, gres: str) -> None:
    """As sbatch does: each word of --gpus is a type and a count."""
    assert gres_of_option(option, value) == gres


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("", 0),
        ("cpu=4,mem=1G", 0),
        ("cpu=4,gres/gpu=2", 2),
        ("gres/gpu=2,gres/gpu:a100=2", 2),
        ("gres/gpu:a100=1,gres/gpu:t4=2", 3),
        ("gres/gpumem=5,gres/gpuutil=7", 0),
        ("gres/gpu=999999999999", 999999999999),
    ],
)
def test_an_allocation_tells_a_sum_or_its_types(tres: str, gpus: int) -> None:
    """AllocTRES repeats typed GPUs in their sum; usage fields with like names are no GPUs."""
    assert allocated_gpus(tres) == gpus


@pytest.mark.parametrize("count", ["1.5", "-1", "two", "٣", "9" * 13])
def test_a_count_that_is_none_is_an_error(count: str) -> None:
    """An accounting record with half a GPU is refused and not rounded."""
    with pytest.raises(ValueError, match=r"gres/gpu is .* expected a whole number"):
        allocated_gpus(f"gres/gpu={count}")
