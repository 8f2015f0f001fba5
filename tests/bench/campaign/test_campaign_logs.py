"""What the campaign reads in the log of a slurmctld that was killed or forgot a start."""

import pytest

from contrib.bench.campaign import accounting
from contrib.bench.campaign.forgotten import ends, with_forgotten
from contrib.bench.campaign.records import Recorded, doubled, lost, told_otherwise
from tests.bench.campaign.a_campaign import ran


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("JobId=1 WEXITSTATUS 0", "COMPLETED"),
        ("JobId=1 WEXITSTATUS 3", "FAILED"),
        ("JobId=9_2(1) WTERMSIG 11", "FAILED"),
        ("JobId=1 OOM failure", "OUT_OF_MEMORY"),
        ("JobId=1 cancelled by interactive user", "CANCELLED"),
        (
            "JobId=1 WTERMSIG 126\n[t] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=1 uid 0",
            "CANCELLED",
        ),
        ("JobId=1 WTERMSIG 126", "UNKNOWN"),
    ],
)
def test_a_killed_slurmctlds_log_has_the_end_that_it_forgot(said: str, state: str) -> None:
    """That end and no other may stand where Slurm found the job missing later."""
    log = f"[t] _job_complete: {said}\n[t] _job_complete: JobId=1 done\n"
    failed = [ran(1, 0, "NODE_FAIL")]
    for other in ("COMPLETED", "FAILED", "OUT_OF_MEMORY", "CANCELLED", "UNKNOWN"):
        wrong = told_otherwise(failed, [Recorded(1, 0, "n1", other)], ends(log))
        assert (wrong == []) == (other == state)
    assert len(told_otherwise(failed, [Recorded(1, 0, "n1", state)], None)) == 1


def test_a_start_that_accounting_forgot_is_known_by_slurmctlds_log() -> None:
    """Only where a record agrees: what slurmctld began and never launched owes none."""
    log = (
        "[t] sched: Allocate JobId=7 NodeList=n[1-2] #CPUs=1 Partition=main\n"
        "[t] sched/backfill: _start_job: Started JobId=7 in main on n3\n"
        "[t] sched: Allocate JobId=5_0(8) NodeList=n1 #CPUs=1 Partition=main\n"
    )
    told = [ran(7, nodes="n3"), ran(8)]
    records = [
        Recorded(7, restart, node, state)
        for restart, node, state in (
            (0, "n1", "REQUEUED"),
            (0, "n2", "REQUEUED"),
            (1, "n3", "COMPLETED"),
        )
    ]
    found = with_forgotten(told, records, log)
    assert found == [ran(7, 0, "REQUEUED", "n1 n2"), ran(7, 1, nodes="n3"), ran(8)]
    assert doubled(found, records, []) == []
    assert with_forgotten(told, records[2:], log) == told
    assert with_forgotten(told, records, "") == told


def test_a_start_that_no_node_launched_owes_nothing() -> None:
    """Accounting has it as one that failed; the start after it is the second run."""
    log = "".join(
        f"[t] sched: Allocate JobId=7 NodeList=n1 #CPUs=1 Partition=main\n{more}"
        for more in ("", "[t] Killing non-startable batch JobId=7: Job credential revoked\n", "")
    )
    told = [ran(7, 0, "REQUEUED"), ran(7, 1, "FAILED"), ran(7, 2)]
    records = [Recorded(7, 0, "n1", "REQUEUED"), Recorded(7, 1, "n1", "COMPLETED")]
    found = with_forgotten(told, records, log)
    assert found == [ran(7, 0, "REQUEUED"), ran(7, 1)]
    assert lost(found, records) == told_otherwise(found, records, {}) == []


def test_slurms_own_drain_is_not_ours() -> None:
    """A node that knows a number which slurmctld forgot is drained, whatever else is there."""
    nodes = ["n1 drained Duplicate jobid", "n2 drained Epilog error", "n3 idle none"]
    log = ["[t] drain_nodes: node n1 state set to DRAIN", "[t] n2: Epilog error"]
    assert accounting.drained_lines(nodes, log, forgets=True) == [nodes[1], log[1]]
    assert accounting.drained_lines(nodes, log, forgets=False) == [*nodes[:2], *log]


def test_a_drain_by_a_prolog_that_slurmd_threw_away_is_not_ours() -> None:
    """That of another node is, and so is an epilog's of the same one."""
    nodes = ["n1 drained Prolog error", "n2 drained Prolog error", "n11 idle none"]
    log = [
        "[t] error: validate_node_specs: Prolog or job env setup failure on node n1, draining the",
        "[t] drain_nodes: node n1 state set to DRAIN",
        "[t] n1: Epilog error",
        "[t] drain_nodes: node n11 state set to DRAIN",
    ]
    told = accounting.drained_lines(nodes, log, forgets=False, in_vain=["n1"])
    assert told == [nodes[1], *log[2:]]
