"""Slurm skips the prolog of a run that starts within a second of its requeue (seen on 22.05)."""

from pathlib import Path

import pytest

from slurm_ext.node.common.spool_layout import Spool
from slurm_ext.node.hooks.epilog import ended_run_key


@pytest.mark.parametrize(
    ("files", "told", "run"),
    [
        ((), 0, "7.0"),  # never seen before: its prolog failed
        ((), 2, "7.2"),  # its earlier runs were on other nodes
        (("7.0.json",), 1, "7.0"),  # requeued: the next run's count is told
        (("7.0.done",), 1, "7.1"),  # its second run, without a prolog, ended by itself
        (("7.0.done",), 2, "7.1"),  # its second run, without a prolog, was requeued
        (("7.0.done", "7.1.done", "7.2.json"), 2, "7.2"),
        (("7.0.done",), 0, "7.0"),  # an epilog that is run again
        (("8.0.done",), 1, "7.1"),  # another job's
    ],
)
def test_the_run_that_ends_is_told_from_those_that_ended(
    tmp_path: Path, files: tuple[str, ...], told: int, run: str
) -> None:
    """Each run gets its own record, whatever the count that slurmd tells."""
    spool = Spool(str(tmp_path))
    spool.prepare()
    for name in files:
        Path(spool.state, name).touch()
    assert ended_run_key(spool, 7, told) == run
