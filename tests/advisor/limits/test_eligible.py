"""Which submissions are skipped, which are never edited, and who agreed to share."""

from typing import Any

import pytest

from slurm_ext.advisor.limits.eligible import wants_to_share, why_not_edited, why_skipped
from slurm_ext.core.records import Submission
from slurm_ext.core.settings.document import Settings


@pytest.mark.parametrize(
    ("job", "word"),
    [
        ({"script": None}, "no script"),
        ({"script_truncated": True}, "too long"),
        ({"array": "0-3"}, "array"),
        ({"het_offset": 0}, "heterogeneous"),
        ({"comment": "x,dlqueue=off;y"}, "opted out"),
        ({"env": {"DLQUEUE": " OFF "}}, "opted out"),
    ],
)
def test_a_job_is_skipped_for_one_reason(job: dict[str, Any], word: str) -> None:
    """Each reason alone suffices, and names itself."""
    assert why_skipped(Submission(**{"script": "", **job})) is not None
    assert word in str(why_skipped(Submission(**{"script": "", **job})))


@pytest.mark.parametrize(
    "job",
    [{}, {"comment": "dlqueue=offline"}, {"comment": "no-dlqueue=off"}, {"env": {"DLQUEUE": "on"}}],
)
def test_an_ordinary_job_is_not_skipped(job: dict[str, Any]) -> None:
    """A word that only begins or ends like the opt-out is another word."""
    assert why_skipped(Submission(**{"script": "", **job})) is None


@pytest.mark.parametrize(
    ("job", "edited"),
    [
        ({}, True),
        ({"shared": 0}, False),
        ({"shared": 1}, True),
        ({"reservation": "r"}, False),
        ({"cpus_per_tres": "gpu:4"}, False),
        ({"min_nodes": 1, "max_nodes": 1}, True),
        ({"min_nodes": 1, "max_nodes": 2}, False),
        ({"min_nodes": 2}, False),
    ],
)
def test_whole_nodes_reservations_and_several_nodes_are_never_edited(
    job: dict[str, Any], *, edited: bool
) -> None:
    """They are learned from all the same."""
    assert (why_not_edited(Submission(**job)) is None) == edited


@pytest.mark.parametrize(
    ("job", "settings", "shares"),
    [
        ({}, {}, False),
        ({"comment": "dlqueue=share"}, {}, True),
        ({"env": {"DLQUEUE_SHARE": "Yes"}}, {}, True),
        ({"env": {"DLQUEUE_SHARE": "perhaps"}}, {}, False),
        ({"comment": "dlqueue=share dlqueue=alone"}, {}, False),
        ({"comment": "dlqueue=share", "env": {"DLQUEUE_SHARE": "0"}}, {}, False),
        ({"account": "a"}, {"sharing.accounts": ["a"]}, True),
        ({"account": "b"}, {"sharing.accounts": ["a"]}, False),
        ({"account": "b"}, {"sharing.accounts": ["*"]}, True),
        ({"partition": "p,q"}, {"sharing.partitions": ["p", "q"]}, True),
        ({"partition": "p,q"}, {"sharing.partitions": ["p"]}, False),
        ({"partition": "p,q"}, {"sharing.partitions": ["*"]}, True),
        ({"partition": "p", "env": {"DLQUEUE_SHARE": "no"}}, {"sharing.partitions": ["p"]}, False),
    ],
)
def test_consent_is_the_jobs_word_then_the_accounts_or_every_partitions(
    job: dict[str, Any], settings: dict[str, Any], *, shares: bool
) -> None:
    """A refusal outweighs everything."""
    assert wants_to_share(Submission(**job), Settings(values=settings)) == shares
