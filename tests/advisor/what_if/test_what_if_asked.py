"""What Slurm is asked of each row of a what-if table, and how its GPUs and tasks are laid out."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.pipeline.sbatch_options import options_of
from slurm_ext.advisor.pipeline.script import read_script
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.context_json import context_from_json, context_json
from slurm_ext.advisor.what_if.layout import (
    GpuOption,
    JobLayout,
    request_of,
    with_gpus,
    written_layout,
)
from slurm_ext.advisor.what_if.queue_wait import (
    AT_ONCE,
    StartQuery,
    brief,
    machines_of,
    options_for,
    starts,
)
from slurm_ext.advisor.what_if.shapes import ClusterNodes
from slurm_ext.core.errors import SlurmError, UsageError
from slurm_ext.core.records import Level, LoaderRun, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_request
from slurm_ext.model.throughput.estimate import Prior
from slurm_ext.model.throughput.evidence_checks import inconsistency
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.slurm import JobAllowance, MemoryClient, NodeInfo, StartEstimate

RULES = PartitionRules(cpus_per_node=16, mem_per_node_mib=64 * 1024, def_mem_per_cpu_mib=1024)
RUN = LoaderRun(
    samples_per_s=12.0,
    workers=1,
    cores=4.0,
    batch_size=8.0,
    accel_samples_per_s=100.0,
    fetch_wall_s=0.08,
    fetch_cpu_s=0.078,
)


def question(head: str, *runs: LoaderRun, rules: PartitionRules | None = RULES) -> StartQuery:
    """What is asked about a script with these options."""
    text = f"#!/bin/bash\n#SBATCH {head}\npython3 train.py\n"
    job = read_script(text, "job.sh", args=("--lr", "1"))
    options = options_of(text, "job.sh")
    request = request_of(options)
    return StartQuery(
        job=job,
        script="job.sh",
        written=written_layout(job, request, 1, runs),
        request=request,
        rules=rules,
        options=options,
        machines=ClusterNodes(cpus=16, gpus=4, gpu_types=("a100",)),
    )


def over(head: str, gpus: int, *runs: LoaderRun) -> tuple[str, ...]:
    """The options that give the script these GPUs."""
    asked = question(head, *runs)
    return options_for(asked, with_gpus(asked.written, gpus, 4))


def test_the_row_as_written_is_asked_as_written() -> None:
    """No option of ours: what Slurm answers is what the user would see."""
    asked = question("-c 2 --gres=gpu:1")
    assert options_for(asked, asked.written) == ()


@pytest.mark.parametrize(
    ("head", "cpus", "options"),
    [
        ("-c 2", 4, ("--cpus-per-task=4",)),
        ("-c 4", 2, ("--cpus-per-task=2", "--mem-per-cpu=2048")),
        ("-c 4 --mem-per-cpu=1G", 8, ("--cpus-per-task=8", "--mem-per-cpu=512")),
        ("-c 4 --mem=8G", 2, ("--cpus-per-task=2",)),
    ],
)
def test_cores_bring_their_memory_as_dlqueues_own_edits_do(
    head: str, cpus: int, options: tuple[str, ...]
) -> None:
    """The job's memory never shrinks with its CPUs, and Slurm is asked about exactly that."""
    asked = question(head)
    assert options_for(asked, replace(asked.written, cpus_per_task=cpus)) == options


def test_cpus_that_come_with_gpus_are_counted_and_asked_for_by_gpu() -> None:
    """Slurm refuses --cpus-per-task beside a script's --cpus-per-gpu."""
    asked = question("--gpus=2 --cpus-per-gpu=4 --mem=8G")
    assert asked.written.cpus_per_task == 8
    wider = replace(asked.written, cpus_per_task=16)
    assert options_for(asked, wider) == ("--cpus-per-gpu=8",)
    assert over("--gpus=2 --cpus-per-gpu=4 --mem=8G", 4) == ("--gpus=4",)


@pytest.mark.parametrize(
    ("head", "options"),
    [
        ("-c 2 --gpus=1", ("--cpus-per-task=4", "--gpus=2")),
        ("-c 2 --gpus=a100:1", ("--cpus-per-task=4", "--gpus=a100:2")),
        ("-c 2 --gres=tmp:5,gpu:a100:1", ("--cpus-per-task=4", "--gres=tmp:5,gpu:a100:2")),
        ("-c 2 --gres=gpu", ("--cpus-per-task=4", "--gres=gpu:2")),
        ("-c 2 -G 1", ("--cpus-per-task=4", "--gpus=2")),
        ("-c 2 -n 4 --gpus=4", ("--ntasks=2", "--gpus=2")),
        ("-c 2 -n 4 --gpus-per-task=1", ("--ntasks=2", "--gpus-per-task=1")),
        ("-c 2 -n 3 --gpus-per-task=2", ("--ntasks=1", "--gpus-per-task=2")),
        ("-c 2 -n 3 --gpus=4", ("--cpus-per-task=1", "--gpus=2")),
        (
            "-c 2 -N 1 --ntasks-per-node=4 --gpus-per-node=4",
            ("--ntasks-per-node=2", "--gpus-per-node=2"),
        ),
    ],
)
def test_two_gpus_in_the_scripts_own_words(head: str, options: tuple[str, ...]) -> None:
    """One task keeps its cores for each GPU; a task for each GPU stays a task for each GPU."""
    assert over(head, 2) == options


def test_more_gpus_than_a_node_has_go_to_several_nodes() -> None:
    """Eight GPUs of nodes of four are two nodes, with a launcher's task on each."""
    options = over("-c 8 --gpus-per-node=4", 8)
    assert options == ("--nodes=2", "--ntasks=2", "--gpus-per-node=4")


def test_ranks_follow_what_runs_had() -> None:
    """One process for each GPU where the runs had that; without runs one is assumed."""
    two = replace(RUN, gpus=2, nodes=1, ranks=2)
    assert question("-c 8 --gpus=4", two).written.ranks == 4
    single = replace(RUN, gpus=2, nodes=1, ranks=1)
    assert question("-c 8 --gpus=4", single).written.ranks == 2
    assert question("-c 8 --gpus=4").written.ranks == 4
    assert question("-c 8", replace(RUN, ranks=3, nodes=1)).written.ranks == 3


@pytest.mark.parametrize(
    ("head", "request_"),
    [
        ("-c 1", GpuOption()),
        ("--gres=tmp:1", GpuOption()),
        ("--gres=gpu:2(S:0)", GpuOption(option="gres", count=2)),
        ("--gpus=h100", GpuOption(option="gpus", kind="h100", count=1)),
        ("--gpus=2 --gres=gpu:1", None),
        ("--gres=gpu:a100:1,gpu:h100:1", None),
        ("--gpus-per-socket=1", None),
    ],
)
def test_how_scripts_ask_for_gpus(head: str, request_: GpuOption | None) -> None:
    """What cannot be varied without a guess is None."""
    assert question(head).request == request_


def asked_by(
    says: Callable[[tuple[str, ...]], StartEstimate], *cpus: int, deadline_s: float = 5.0
) -> tuple[list[StartEstimate], list[tuple[str, ...]]]:
    """The starts of rows with these CPUs, and the submissions that were asked about."""
    heard: list[tuple[str, ...]] = []

    def known(words: tuple[str, ...]) -> StartEstimate:
        heard.append(words)
        return says(words)

    it = question("-c 2 --mem=4G")
    layouts = [replace(it.written, cpus_per_task=n, num_workers=w) for n in cpus for w in (1, 2)]
    found = starts(MemoryClient(known_start=known), it, layouts, deadline_s)
    return [found[one] for one in layouts], heard


def test_each_submission_is_asked_once_with_its_arguments() -> None:
    """Rows that differ in workers only are the same to Slurm."""
    said, heard = asked_by(lambda words: StartEstimate(start_s=len(words)), 2, 4)
    assert sorted(heard) == [
        ("--cpus-per-task=4", "job.sh", "--lr", "1"),
        ("job.sh", "--lr", "1"),
    ]
    assert [one.start_s for one in said] == [3, 3, 4, 4]


def test_few_are_asked_at_once() -> None:
    """A table is no storm: slurmctld's locks are everybody's."""
    lock = threading.Lock()
    now, most = 0, 0

    def says(_: tuple[str, ...]) -> StartEstimate:
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        time.sleep(0.01)
        with lock:
            now -= 1
        return StartEstimate(start_s=0)

    asked_by(says, *range(1, 20))
    assert 1 <= most <= AT_ONCE


def test_a_controller_that_does_not_answer_costs_one_deadline() -> None:
    """What is left over is not asked any more, and says why."""

    def away(_: tuple[str, ...]) -> StartEstimate:
        time.sleep(0.1)
        raise SlurmError("sbatch --test-only", None, "no answer within 0.1 s")

    said, heard = asked_by(away, *range(1, 40), deadline_s=0.1)
    assert len(heard) <= 2 * AT_ONCE
    assert {one.why for one in said} == {
        "no answer within 0.1 s",
        "Slurm did not answer within 0.1 s",
    }


def test_a_refusal_names_what_is_too_much() -> None:
    """Where the nodes make it plain; else Slurm's own word stays."""
    no = StartEstimate(refused="no node has that many CPUs or GPUs, or that much memory")
    said, _ = asked_by(lambda _: no, 2, 17)
    assert said[0] == no
    assert said[2].refused == "more CPUs than any node has (16)"
    asked = question("-c 2 --gres=gpu:1")
    many = replace(asked.written, gpus=5)
    client = MemoryClient(known_start=lambda _: no)
    assert starts(client, asked, [many], 5.0)[many].refused == "more GPUs than any node has (4)"
    alone = replace(asked, machines=replace(asked.machines, nodes=1))
    wide = replace(asked.written, nodes=2)
    assert starts(client, alone, [wide], 5.0)[wide].refused == "more nodes than there are (1)"


@pytest.mark.parametrize(
    ("said", "clause"),
    [
        (
            "scontrol: error: resolve_ctls: Unknown host\nscontrol: fatal: no conf\n\n",
            "scontrol: fatal: no conf",
        ),
        ("x\x1b[2Jy", "x[2Jy"),
        ("z" * 500, "z" * 100),
        (" \n", "sbatch failed"),
    ],
)
def test_a_failed_command_is_one_clause(said: str, clause: str) -> None:
    """Its last line, harmless and short."""
    assert brief(SlurmError("sbatch --test-only", 1, said)) == clause


def test_slurm_is_not_asked_for_gpus_that_it_has_no_name_for() -> None:
    """A driver's name is none of Slurm's."""
    asked = question("-c 2 --gres=gpu:1")
    named = replace(asked.written, gpu_type="NVIDIA A30")
    said = starts(MemoryClient(), asked, [named], 5.0)[named]
    assert (said.start_s, said.why) == (None, "Slurm knows no GPUs by that name")


def test_machines_are_those_of_the_jobs_partitions() -> None:
    """Of the largest node; without a partition, of all."""
    nodes = [
        NodeInfo(name="a", cpus=8, mem_mib=1, gres={"gpu": 2, "gpu:a100": 2}, partitions=("x",)),
        NodeInfo(name="b", cpus=64, mem_mib=1, partitions=("y", "z")),
    ]
    assert machines_of(nodes, "x") == ClusterNodes(nodes=1, cpus=8, gpus=2, gpu_types=("a100",))
    assert machines_of(nodes, None) == ClusterNodes(nodes=2, cpus=64, gpus=2, gpu_types=("a100",))
    assert machines_of([], "x") == ClusterNodes()


def test_uneven_nodes_are_refused() -> None:
    """Said by the function that spreads."""
    with pytest.raises(UsageError, match="5 GPUs cannot be spread"):
        with_gpus(JobLayout(cpus_per_task=1, num_workers=0, gpus=1), 5, 4)
    with pytest.raises(UsageError, match="3 GPUs cannot be shared by tasks of 2 GPUs each"):
        with_gpus(JobLayout(cpus_per_task=1, num_workers=0, tasks=4, gpus=8), 3, 8)


def test_what_the_advisor_knows_survives_the_wire() -> None:
    """Evidence, prior, rules and factor come back as they were."""
    known = DecisionContext(
        settings=Settings(),
        evidence={Level.SCRIPT: [RUN, replace(RUN, gpu_model="NVIDIA A30", ranks=2)]},
        prior=Prior(accel=LogNormal(1.0, 0.5), wall=LogNormal(-2.0, 0.5), cpu=LogNormal(-3.0, 0.5)),
        rules=replace(RULES, allowance=JobAllowance(max_cpus=7)),
        factor=1.5,
    )
    assert context_from_json(known.settings, context_json(known, Submission())) == known
    plain = DecisionContext(settings=Settings())
    assert context_from_json(plain.settings, context_json(plain, Submission())) == plain


class Sealed(Journal):
    """Nothing may be recorded."""

    def __init__(self) -> None:
        pass

    def append(self, line: str) -> None:
        """Fails the test."""
        raise AssertionError(line)


def test_the_advisor_tells_anybody_what_it_knows_and_records_nothing() -> None:
    """Who may not read the history still gets a table; names of others are not in it."""
    advisor = Advisor(Settings(), Sealed())
    advisor.rules = ClusterRules(partitions={"gpu": RULES})
    job = Submission(script="#!/bin/sh\npython3 a.py\n", user_name="ada", partition="gpu")
    reply, stays = advisor.reply(encode_request("what_if", job), trusted=False)
    told = json.loads(reply)
    assert stays
    assert told["decision"] is None
    assert context_from_json(Settings(), told["known"]) == DecisionContext(
        settings=Settings(), rules=RULES
    )


def test_a_run_beyond_all_numbers_survives_the_wire_as_one_that_is_not_believed() -> None:
    """JSON has no infinity; what cannot be told is no evidence, and no fault of the advisor's."""
    endless = replace(RUN, samples_per_s=inf, main_cpu_s=inf)
    known = DecisionContext(settings=Settings(), evidence={Level.SCRIPT: [endless]})
    told = json.loads(json.dumps(context_json(known, Submission()), allow_nan=False))
    ((back,),) = context_from_json(known.settings, told).evidence.values()
    assert (back.samples_per_s, back.main_cpu_s) == (0.0, None)
    assert inconsistency(back) is not None
