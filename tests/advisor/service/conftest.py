"""Fixtures of the tests of service."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.service.advisor import Advisor
from tests.advisor.service.test_advisor_lines import runs, settings


@pytest.fixture
def advisor(tmp_path: Path) -> Iterator[Advisor]:
    """An advisor that acts on a partition of 8 CPUs, with three runs of JOB."""
    journal = Journal(tmp_path / "journal")
    made = Advisor(settings(paths__state_dir=str(tmp_path)), journal)
    made.rules = ClusterRules(partitions={"none": PartitionRules(cpus_per_node=8)})
    runs(made, 3)
    yield made
    journal.close()
