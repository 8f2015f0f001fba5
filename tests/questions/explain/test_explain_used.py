"""Explain says what a run used of what it held."""

from typing import Any

from slurm_ext.questions.explain.used import line, used_of

HELD = {
    "cpus": 4,
    "gpus": 1,
    "mem_bytes": 8 * 2**30,
    "elapsed_s": 1800.0,
    "time_limit_s": 3600.0,
    "state": "COMPLETED",
    "node": "n1",
    "end_s": 1e9,
    **dict.fromkeys(("cluster", "job_id", "restart", "array_job_id", "array_task_id", "user")),
    **dict.fromkeys(("account", "partition", "job_name", "exit_code")),
}


def run(**counters: float | None) -> dict[str, Any]:
    """A run whose counters are these."""
    rows = [{"name": name, "value": value} for name, value in counters.items()]
    return {**HELD, "counters": rows}


def test_all_that_was_counted_is_told() -> None:
    """An hour of CPU in half an hour is two of four; what the job held counts, not the cache."""
    counted = run(
        cpu_user=3000,
        cpu_system=600,
        mem_held_peak=2**31,
        mem_peak=2**33,
        gpu_util=0.71,
        io_read=2**30,
    )
    used = used_of(counted)
    assert used is not None
    assert (used["cpus_used"], used["cpu"], used["mem"], used["time"]) == (2.0, 0.5, 0.25, 0.5)
    assert line(used) == (
        "used:     2.0 of 4 CPUs (50 %); 2 GiB of 8 GiB memory (25 %); GPUs 71 % busy;"
        " 00:30:00 of 01:00:00 (50 %); read 1 GiB, wrote 0 B"
    )


def test_the_jobs_own_share_of_a_gpu_counts_first() -> None:
    """Another job on the same GPU kept it busy, too."""
    used = used_of(run(gpu_util=0.9, gpu_job_util=0.2))
    assert used is not None
    assert used["gpu"] == 0.2


def test_nothing_counted_says_nothing() -> None:
    """A run told by accounting alone has no such line."""
    assert used_of(run()) is None
    assert used_of(run(cpu_user=None)) is None
