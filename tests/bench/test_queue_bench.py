"""The queue benchmarks, started on folders that lack their tables."""

from pathlib import Path

from tests.bench.program import run_bench


def test_a_folder_without_the_trace_is_one_line(tmp_path: Path) -> None:
    """Status 1, and the file is named."""
    done = run_bench("queue", "--train", tmp_path, "--test", tmp_path)
    assert done.returncode == 1
    assert "helios_artifact_philly_published.csv" in done.stderr
    assert "Traceback" not in done.stderr


def test_ageing_is_chosen_from_a_folder_that_is_there(tmp_path: Path) -> None:
    """Status 1 in one line where it is not."""
    done = run_bench("queue.ageing", "--data", tmp_path)
    assert done.returncode == 1
    assert "philly_jobs.csv.gz" in done.stderr
    assert "Traceback" not in done.stderr
