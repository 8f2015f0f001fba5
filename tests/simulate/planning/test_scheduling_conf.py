"""SchedulerParameters of a slurm.conf decide how multifactor's backfill looks through the queue."""

from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.core.errors import InputError
from slurm_ext.simulate.planning.scheduling import Scheduling
from slurm_ext.simulate.planning.scheduling_conf import not_replayed, read_scheduling

CONF = """
SchedulerParameters=bf_interval=10,bf_max_job_test=7,bf_window=60,BF_Resolution=5,bf_continue,\\
default_queue_depth=3,sched_interval=20,bf_window_linear=4,bf_max_job_user=2
NodeName=n1 SchedulerParameters=bf_interval=99
"""
TRACE = "job,submit_s,duration_s,gpus\n1,0,100,6\n2,1,50,4\n3,2,5,2\n4,3,1,2\n"


def test_parameters_are_read(tmp_path: Path) -> None:
    """In Slurm's units; what is not there has Slurm's default, and what no replay has is named."""
    path = tmp_path / "slurm.conf"
    path.write_text(CONF)
    assert read_scheduling(path) == Scheduling(
        depth=7,
        window_s=3600,
        resolution_s=5,
        interval_s=10,
        linear_s=4,
        queue_depth=3,
        sched_interval_s=20,
    )
    assert not_replayed(path) == ["bf_max_job_user"]
    path.write_text("ClusterName=c\n")
    assert (read_scheduling(path), not_replayed(path)) == (Scheduling(), [])


def test_a_wrong_parameter_is_told(tmp_path: Path) -> None:
    """The file, the parameter and its value are named."""
    path = tmp_path / "slurm.conf"
    path.write_text("SchedulerParameters=bf_interval=often\n")
    with pytest.raises(InputError, match="bf_interval is 'often': expected a number"):
        read_scheduling(path)


@pytest.mark.parametrize(
    ("options", "starts"),
    [
        ([], {"fifo+backfill": 2, "multifactor+backfill": 10}),
        (["--depth", "1"], {"fifo+backfill": 100, "multifactor+backfill": 100}),
    ],
)
def test_the_site_decides_for_slurms_own_policy(
    tmp_path: Path, options: list[str], starts: dict[str, float]
) -> None:
    """Multifactor's third job starts with the next round of backfill, fifo's when it comes."""
    for name, text in (("t.csv", TRACE), ("s.conf", CONF)):
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in ("t.csv", "s.conf", "jobs.csv")]
    words = ["simulate", files[0], "--nodes", "1", "--slurm-conf", files[1], "--jobs", files[2]]
    assert main([*words, "--policy", ",".join(starts), *options]) == 0
    rows = [line.split(",") for line in Path(files[2]).read_text().splitlines()]
    assert {row[0]: float(row[7]) for row in rows if row[1] == "3"} == starts


@pytest.mark.parametrize("wrong", ["0", "-1", "some", "1e3", "99999999999"])
def test_reservations_are_a_number_or_all(
    tmp_path: Path, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Anything else is wrong usage, and told."""
    (tmp_path / "t.csv").write_text(TRACE)
    words = ["simulate", str(tmp_path / "t.csv"), "--nodes", "1", "--policy", "fifo+backfill"]
    assert main([*words, f"--reservations={wrong}"]) == 2
    assert f"--reservations {wrong!r}" in capsys.readouterr().err
    for right in ("1", "2", "all"):
        assert main([*words, "--reservations", right]) == 0
