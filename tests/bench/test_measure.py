"""Time and memory of one command."""

import sys
from pathlib import Path

import pytest

from contrib.bench.common import measure


def test_time_and_memory_are_the_commands_own(tmp_path: Path) -> None:
    """Neither this process's memory nor its output counts."""
    held = bytearray(200 << 20)
    output = tmp_path / "output"
    code = "import time; time.sleep(0.2); print('done')"
    spent = measure.timed([sys.executable, "-c", code], output=str(output))
    assert output.read_text() == "done\n"
    assert spent.seconds >= 0.2
    assert 0 < spent.peak_kib < len(held) >> 10


def test_a_command_that_fails_ends_the_benchmark() -> None:
    """Figures of a failed command would be wrong."""
    with pytest.raises(SystemExit, match="ended with status"):
        measure.timed([sys.executable, "-c", "raise SystemExit(3)"])


def test_quartiles_are_by_rank() -> None:
    """In any order, rounded to hundredths."""
    assert measure.quartiles([4.0, 1.0, 3.0, 2.004]) == [2.0, 4.0]
