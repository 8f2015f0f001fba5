"""An elastic job on a real Slurm with limits: it grows as far as its user's QOS."""

from pathlib import Path

import pytest

from contrib.bench.borders.elastic_qos import exceed_qos

pytestmark = [pytest.mark.slurm, pytest.mark.root]


def test_a_job_grows_no_further_than_its_users_qos(short_folder: Path) -> None:
    """Another user's training that gains by eight GPUs is given the two of its QOS."""
    happened = exceed_qos(short_folder)
    assert happened.held, happened.what
