"""Edits that belong together, and the journal's lines."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.evidence.summary import EvidenceSummary
from slurm_ext.advisor.evidence.whole_run import WholeRun
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline import journal as journal_file
from slurm_ext.advisor.pipeline.edits import edits_for, most_threads
from slurm_ext.advisor.pipeline.journal import Journal, journals
from slurm_ext.advisor.service.warm_up import RUN
from slurm_ext.core.records import (
    Edits,
    Level,
    Shape,
    Submission,
)
from slurm_ext.history.ingest.proposals import MAX_LINE_BYTES
from slurm_ext.model.throughput.estimate import estimate
from tests.advisor.pipeline.pipeline_examples import decision


@pytest.mark.parametrize(
    ("fields", "after", "rules", "edits"),
    [
        (
            {"cpus_per_task": 2},
            Shape(cpus_per_task=2, num_workers=3),
            None,
            Edits(env={"DLQUEUE_NUM_WORKERS": "3"}),
        ),
        (
            {"num_tasks": 3},
            Shape(cpus_per_task=2, num_workers=0),
            None,
            Edits(
                cpus_per_task=2,
                min_cpus=6,
                pn_min_cpus=2,
                env={
                    "DLQUEUE_NUM_WORKERS": "0",
                    "SLURM_CPUS_PER_TASK": "2",
                    "SRUN_CPUS_PER_TASK": "2",
                },
            ),
        ),
        (
            {"cpus_per_task": 3, "mem_per_cpu_mib": 100},
            Shape(cpus_per_task=2, num_workers=1),
            None,
            Edits(
                cpus_per_task=2,
                min_cpus=2,
                pn_min_cpus=2,
                min_mem_per_cpu=150,
                env={
                    "DLQUEUE_NUM_WORKERS": "1",
                    "SLURM_CPUS_PER_TASK": "2",
                    "SRUN_CPUS_PER_TASK": "2",
                    "SLURM_MEM_PER_CPU": "150",
                },
            ),
        ),
    ],
)
def test_every_field_that_moves_with_a_shape(
    fields: dict[str, Any], after: Shape, rules: PartitionRules | None, edits: Edits
) -> None:
    """All or nothing: a job with half of them pends or is rejected."""
    chosen = replace(decision(), after=after)
    assert edits_for(Submission(**fields), chosen, rules) == edits


@pytest.mark.parametrize(
    ("fields", "cpus", "rules", "mem_mib"),
    [
        ({"cpus_per_task": 4}, 5, {"def_mem_per_cpu_mib": 100}, None),
        ({"cpus_per_task": 4}, 3, {"def_mem_per_cpu_mib": 100}, 134),
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 5, {"def_mem_per_cpu_mib": 900}, 80),
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 3, {"mem_per_node_mib": 402}, 134),
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 3, {"mem_per_node_mib": 401}, 133),
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 3, {"mem_per_node_mib": 3}, 133),
        ({"cpus_per_task": 2, "mem_per_cpu_mib": 1}, 4, {"mem_per_node_mib": 1}, 1),
        ({"cpus_per_task": 4, "mem_per_node_mib": 0}, 3, {"def_mem_per_cpu_mib": 100}, None),
    ],
)
def test_memory_by_the_cpu_keeps_its_total(
    fields: dict[str, Any], cpus: int, rules: dict[str, Any], mem_mib: int | None
) -> None:
    """Rounded up as far as there is room; a default that grows along is left to do so."""
    chosen = replace(decision(), after=Shape(cpus_per_task=cpus, num_workers=0))
    made = edits_for(Submission(**fields), chosen, PartitionRules(cpus_per_node=8, **rules))
    assert made.min_mem_per_cpu == mem_mib


@pytest.mark.parametrize(
    ("cpus", "most", "threads"),
    [(5, 4, "4"), (5, None, None), (4, 4, None), (3, 4, None)],
)
def test_cpus_that_come_for_workers_bring_no_threads(
    cpus: int, most: int | None, threads: str | None
) -> None:
    """Torch keeps as many as the user's own CPUs gave it; a step on CPUs may use what comes."""
    chosen = replace(decision(), after=Shape(cpus_per_task=cpus, num_workers=2))
    made = edits_for(Submission(cpus_per_task=4), chosen, None, threads=most)
    assert made.env.get("DLQUEUE_NUM_THREADS") == threads


@pytest.mark.parametrize(
    ("on_cpu", "processes", "written", "threads"),
    [(0, 1, 1, 1), (0, 2, 1, 1), (1, 1, 1, None), (1, 2, 1, 2), (1, 2, 3, 3)],
)
def test_processes_of_a_task_part_the_threads_that_its_cpus_bring(
    on_cpu: int, processes: int, written: int, threads: int | None
) -> None:
    """A step on CPUs may use what comes, and no process of it more than its part."""
    run = replace(RUN, emulated=not on_cpu, on_cpu=on_cpu, threads=1, main_cpu_s=0.01)
    summary = EvidenceSummary(
        estimate=estimate({Level.SCRIPT_ARGS: [run]}),
        why_none="",
        usual_workers=1,
        node_cores=8,
        whole=WholeRun(ranks=processes, per_task=processes),
    )
    chosen = replace(decision(), after=Shape(cpus_per_task=4, num_workers=2))
    assert most_threads(Submission(cpus_per_task=written), chosen, summary) == threads


def test_a_line_may_have_its_most_bytes_and_no_more(tmp_path: Path) -> None:
    """Bytes count, not letters; half a pair of surrogates is written all the same."""
    journal = Journal(tmp_path / "a" / "b")
    Journal(tmp_path / "a" / "b").close()  # the folder may be there
    journal.append("x" * MAX_LINE_BYTES)
    with pytest.raises(ValueError, match=rf"^a proposal of {MAX_LINE_BYTES + 2} bytes$"):
        journal.append("ä" + "x" * MAX_LINE_BYTES)
    journal.append("\udc80\n")
    journal.close()
    first, second = journals(tmp_path / "a" / "b")
    assert {first.stat().st_size, second.stat().st_size} == {MAX_LINE_BYTES + 7, 0}
    assert first.suffix == ".jsonl"
    assert len(first.stem) == 20
    assert first.stat().st_mode & 0o777 == 0o640 & ~umask()


def umask() -> int:
    """The process's."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_full_file_is_followed_by_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may reach its size, and never exceeds it; the new one starts at nothing."""
    monkeypatch.setattr(journal_file, "ROTATE_BYTES", 8)
    journal = Journal(tmp_path)
    for line in ("abc\n", "def\n", "ghi\n", "jkl\n", "m\n"):
        journal.append(line)
    journal.close()
    files = [path.read_text() for path in journals(tmp_path)]
    assert files == ["abc\ndef\n", "ghi\njkl\n", "m\n"]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what comes next goes into a new file, whatever its size."""
    journal = Journal(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda _file, raw: len(raw) - 1)
        with pytest.raises(OSError, match=r"^the journal's disk is full$"):
            journal.append("ab\n")
    journal.append("c")
    journal.close()
    assert [path.read_text() for path in journals(tmp_path)] == ["", "c"]
