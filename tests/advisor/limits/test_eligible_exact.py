"""Who is edited, who only teaches and who agreed: every reason to the word."""

from typing import Any

import pytest

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.eligible import (
    wants_to_share,
    why_not_edited,
    why_not_here,
    why_skipped,
    words_of,
)
from slurm_ext.core.records import Submission
from slurm_ext.core.settings.document import Settings


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"comment": "dlqueue=off"}, "opted out"),
        ({"env": {"DLQUEUE": "off"}}, "opted out"),
        ({"script": None}, "has no script: salloc and srun are never edited"),
        ({"script_truncated": True}, "its script is too long to be read"),
        ({"array": ""}, "is an array: its tasks share one submission"),
        ({"het_offset": 0}, "is a heterogeneous job"),
        ({"comment": "DLQUEUE=OFF"}, None),
        ({"env": {"DLQUEUE": "offline"}}, None),
        ({}, None),
    ],
)
def test_the_reason_for_no_edit_at_all_is_one_clause(
    fields: dict[str, Any], why: str | None
) -> None:
    """A user reads it as it stands here; words in other letters are other words."""
    assert why_skipped(Submission(**{"script": "", **fields})) == why


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"shared": 0}, "--exclusive gives it whole nodes anyway"),
        ({"shared": 2}, None),
        ({"reservation": ""}, "it runs in a reservation"),
        ({"cpus_per_tres": ""}, "--cpus-per-gpu sets its CPUs"),
        ({"mem_per_tres": "gres:gpu:20480"}, "--mem-per-gpu sets its memory"),
        ({"mem_per_cpu_mib": 4096}, None),
        ({"pn_min_cpus": 16}, "--mincpus sets its CPUs"),
        ({"pn_min_cpus": 16, "cpus_per_task": 8}, "--mincpus sets its CPUs"),
        ({"pn_min_cpus": 8, "cpus_per_task": 8}, None),
        ({"pn_min_cpus": 1}, None),
        ({"ntasks_per_tres": 1}, "its GPUs set its tasks"),
        ({"ntasks_per_tres": 1, "num_tasks": 4}, None),
        ({"tres_per_task": "gpu:1", "tres_per_job": "gpu:4"}, "its GPUs set its tasks"),
        ({"tres_per_task": "gpu:1"}, None),
        ({"threads_per_core": 1}, "it chooses sockets, cores or threads of its own"),
        ({"binds_gres": 1}, "it chooses sockets, cores or threads of its own"),
        ({"ntasks_per_socket": 0}, "it chooses sockets, cores or threads of its own"),
        ({"min_nodes": 2, "max_nodes": 1}, "it spans several nodes"),
        ({"max_nodes": 2}, "it spans several nodes"),
        ({"min_nodes": 0, "max_nodes": 0}, None),
        ({"max_nodes": 1}, None),
    ],
)
def test_the_reason_to_learn_only_is_one_clause(fields: dict[str, Any], why: str | None) -> None:
    """Whole nodes, reservations, CPUs or memory by the GPU, and more than one node."""
    assert why_not_edited(Submission(**fields)) == why


@pytest.mark.parametrize(
    ("word", "shares"),
    [
        *((word, True) for word in ("1", "yes", "true", "on", " ON ")),
        *((word, False) for word in ("0", "no", "false", "off", " No ")),
        ("", None),
        ("maybe", None),
    ],
)
def test_each_word_of_consent_counts(word: str, shares: bool | None) -> None:
    """Any other word leaves it to the site's settings."""
    job = Submission(env={"DLQUEUE_SHARE": word}, partition="p")
    assert wants_to_share(job, Settings()) == bool(shares)
    everywhere = Settings(values={"sharing.partitions": ["p"]})
    assert wants_to_share(job, everywhere) == (shares is not False)


def test_a_job_without_partition_or_account_shares_by_the_star_only() -> None:
    """A setting that names something does not mean a job that names nothing."""
    named = Settings(values={"sharing.partitions": ["p"], "sharing.accounts": ["a"]})
    assert not wants_to_share(Submission(), named)
    assert wants_to_share(Submission(), Settings(values={"sharing.accounts": ["*"]}))
    assert wants_to_share(Submission(), Settings(values={"sharing.partitions": ["*"]}))
    assert not wants_to_share(Submission(), Settings())


def test_words_of_a_comment_are_split_at_commas_semicolons_and_blanks() -> None:
    """Nothing else divides words."""
    assert words_of(Submission(comment="a,b;c d\te:f")) == ["a", "b", "c", "d", "e:f"]
    assert words_of(Submission()) == []


@pytest.mark.parametrize(
    ("fields", "rules", "why"),
    [
        ({}, None, None),
        ({}, {}, None),
        ({}, {"whole_nodes": True}, "its partition gives whole nodes anyway"),
        ({"tres_per_node": "gpu:1"}, {}, None),
        (
            {"tres_per_node": "gpu:1"},
            {"cpus_by_gpu": True},
            "JobDefaults sets its CPUs by the GPU",
        ),
        ({"tres_per_node": "gpu:1", "cpus_per_task": 2}, {"cpus_by_gpu": True}, None),
        ({}, {"cpus_by_gpu": True}, None),
        (
            {"tres_per_node": "gpu:1", "cpus_per_task": 2},
            {"mem_by_gpu": True},
            "JobDefaults sets its memory by the GPU",
        ),
        ({"tres_per_node": "gpu:1", "mem_per_cpu_mib": 100}, {"mem_by_gpu": True}, None),
        ({"tres_per_node": "gpu:1", "mem_per_node_mib": 0}, {"mem_by_gpu": True}, None),
        ({}, {"mem_by_gpu": True}, None),
    ],
)
def test_a_partition_may_give_other_cpus_or_memory_than_the_job_asks_for(
    fields: dict[str, Any], rules: dict[str, Any] | None, why: str | None
) -> None:
    """Then dlqueue does not know what the job has, and writes nothing."""
    known = None if rules is None else PartitionRules(cpus_per_node=8, **rules)
    assert why_not_here(Submission(**fields), known) == why
