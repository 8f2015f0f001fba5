"""The benchmark that has the name of a module of the standard library."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "contrib" / "bench"


def test_programs_beside_it_still_find_the_standard_librarys_queue() -> None:
    """With the folder first on the path, `import queue` is Python's, threads and all."""
    code = (
        f"import sys; sys.path.insert(0, {str(BENCH)!r}); import queue, concurrent.futures.thread;"
        "queue.SimpleQueue, queue.Full, queue.PriorityQueue; print(queue.__file__)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert not Path(said.stdout.strip()).is_relative_to(BENCH)


def test_a_folder_without_the_trace_is_one_line(tmp_path: Path) -> None:
    """Status 1, and the file is named."""
    words = [sys.executable, str(BENCH / "queue.py"), "--train", str(tmp_path), "--test"]
    said = subprocess.run([*words, str(tmp_path)], capture_output=True, text=True)
    assert said.returncode == 1
    assert "helios_artifact_philly_published.csv" in said.stderr
    assert "Traceback" not in said.stderr


def test_ageing_is_chosen_from_a_folder_that_is_there(tmp_path: Path) -> None:
    """Status 1 in one line where it is not."""
    words = [sys.executable, str(BENCH / "queue_ageing.py"), "--data", str(tmp_path)]
    said = subprocess.run(words, capture_output=True, text=True)
    assert said.returncode == 1
    assert "philly_jobs.csv.gz" in said.stderr
    assert "Traceback" not in said.stderr
