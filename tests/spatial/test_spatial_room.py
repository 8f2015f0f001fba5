"""Memory that a rank may take, as its control groups and its node tell."""

from pathlib import Path

import pytest

from slurm_ext.spatial.measuring.memory import least_share, node_room

NODE = "MemTotal:  4000 kB\nMemAvailable:  3000 kB\n"


def group(folder: Path, names: tuple[str, str, str], values: tuple[str, int, int]) -> None:
    """A control group's files: its limit, its use, and its cache that is given up first."""
    folder.mkdir(parents=True, exist_ok=True)
    limit, use, cache = names
    (folder / limit).write_text(f"{values[0]}\n")
    (folder / use).write_text(f"{values[1]}\n")
    (folder / "memory.stat").write_text(f"anon 7\n{cache} {values[2]}\n")


V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")


@pytest.mark.parametrize(
    ("names", "line", "below", "none"),
    [
        (V1, "4:memory:/job_7/step_0/task_0", "memory", str((1 << 63) - 4096)),
        (V2, "0::/job_7/step_0/task_0", "", "max"),
    ],
)
def test_the_tightest_group_bounds_a_rank(
    tmp_path: Path, names: tuple[str, str, str], line: str, below: str, none: str
) -> None:
    """The job's limit counts for a task without one of its own, less what is in use."""
    process, meminfo, job = tmp_path / "process", tmp_path / "meminfo", tmp_path / below / "job_7"
    process.write_text(f"9:cpu:/elsewhere\n{line}\n")
    meminfo.write_text(NODE)
    group(job, names, ("900000", 500000, 100000))
    group(job / "step_0" / "task_0", names, (none, 500000, 100000))
    free, pool = node_room(tmp_path, process, meminfo)
    assert free == 500000.0
    assert pool.endswith(str(job))


def test_a_node_without_control_groups_has_what_is_available(tmp_path: Path) -> None:
    """Nothing but the kernel's own figure bounds its ranks."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(NODE)
    assert node_room(tmp_path, tmp_path / "none", meminfo)[0] == 3000.0 * 1024
    assert node_room(tmp_path, tmp_path / "none", tmp_path / "none")[0] == float("inf")


def test_ranks_of_one_pool_share_it() -> None:
    """Three ranks on one node have a third each; the smallest share counts."""
    assert least_share([(900.0, "a"), (900.0, "a"), (890.0, "a"), (500.0, "b")]) == 890.0 / 3
