"""What doctor says where jobs may compute on each other's cores."""

import pytest

from slurm_ext.cli.doctor.cores import cores


@pytest.mark.parametrize(
    ("config", "status"),
    [
        ({}, "warn"),
        ({"TaskPlugin": "(null)"}, "warn"),
        ({"TaskPlugin": "task/none"}, "warn"),
        ({"TaskPlugin": "task/cgroup"}, "warn"),
        ({"TaskPlugin": "task/cgroup", "ConstrainCores": "no"}, "warn"),
        ({"TaskPlugin": "task/none", "ConstrainCores": "yes"}, "warn"),
        ({"TaskPlugin": "cgroup", "ConstrainCores": "yes"}, "ok"),
        ({"TaskPlugin": "task/affinity"}, "ok"),
        ({"TaskPlugin": "task/cgroup,task/affinity", "ConstrainCores": "no"}, "ok"),
    ],
)
def test_a_job_is_kept_on_its_cores_or_the_way_to_do_so_is_told(
    config: dict[str, str], status: str
) -> None:
    """By a cpuset or by affinity; where neither is set, rates follow the neighbours."""
    found = cores(config)
    assert found.status == status
    assert ("ConstrainCores=yes" in found.advice) == (status == "warn")
