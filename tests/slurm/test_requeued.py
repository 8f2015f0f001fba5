"""How long a requeued job has to wait."""

import pytest

from slurm_ext.slurm.records import NodeInfo
from slurm_ext.slurm.requeued import requeued_wait_s


@pytest.mark.parametrize(
    ("release", "auth_info", "wait_s"),
    [
        ("22.05.8", "socket=/run/munge.socket", 121.0),
        ("22.05.8", "socket=/run/munge.socket,cred_expire=30", 31.0),
        ("23.11.10", "(null)", 121.0),
        ("24.11.5", "cred_expire=30", 0.0),
        ("26.05.1", "", 0.0),
        ("", "", 121.0),
    ],
)
def test_a_requeued_job_waits_where_slurmd_keeps_its_credential(
    release: str, auth_info: str, wait_s: float
) -> None:
    """By release, and by what the site set; an unknown release is taken for an old one."""
    config = {"SLURM_VERSION": release, "AuthInfo": auth_info}
    assert requeued_wait_s({key: value for key, value in config.items() if value}, ()) == wait_s


@pytest.mark.parametrize(
    ("releases", "wait_s"),
    [
        (["24.11.5", "24.11.5"], 0.0),
        (["24.11.5", "23.11.10"], 121.0),
        (["24.11.5", ""], 0.0),
        (["24.11.5", "?"], 121.0),
    ],
)
def test_the_oldest_slurmd_decides(releases: list[str], wait_s: float) -> None:
    """In a rolling upgrade slurmctld comes first; a node that never registered starts no job."""
    nodes = [NodeInfo(name="n", cpus=1, mem_mib=1, release=release) for release in releases]
    assert requeued_wait_s({"SLURM_VERSION": "26.05.1"}, nodes) == wait_s
