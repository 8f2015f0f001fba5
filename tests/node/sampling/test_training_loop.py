"""The sampler's look at a training's loops: bounded, cheap, and never in the job's way."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.node.sampling.training_loop import EVERY_S, LoopTimes, loop_totals

SUMMARY = json.loads((Path(__file__).parents[2] / "golden" / "probe" / "v1.json").read_text())


def write(folder: Path, pid: int, **phase: Any) -> None:
    """A process's summary with one loader of one phase."""
    (loader, *_) = SUMMARY["loaders"]
    phases = [{**loader["phases"][0], **phase}]
    body = {**SUMMARY, "pid": pid, "loaders": [{**loader, "phases": phases}]}
    (folder / f"summary-{pid}.json").write_text(json.dumps(body))


def test_all_processes_loops_are_added_up(tmp_path: Path) -> None:
    """Two ranks of ten seconds each, one of which waits."""
    loop = LoopTimes(str(tmp_path), os.getuid())
    write(tmp_path, 1, wall_s=10.0, wait_s=4.0)
    write(tmp_path, 2, wall_s=10.0, wait_s=0.0)
    loop.look(100.0)
    assert loop.totals == (20.0, 4.0)


def test_between_two_looks_nobody_reads_and_the_last_one_always_does(tmp_path: Path) -> None:
    """A job that is sampled ten times a second is read once."""
    loop = LoopTimes(str(tmp_path), os.getuid())
    loop.look(100.0)
    write(tmp_path, 1, wall_s=10.0, wait_s=4.0)
    seen = []
    for last in (False, True):
        loop.look(100.0 + EVERY_S / 2, last=last)
        seen.append(loop.totals)
    assert seen == [(None, None), (10.0, 4.0)]


def test_a_folder_that_goes_leaves_what_was_known(tmp_path: Path) -> None:
    """So does a summary that its user broke."""
    folder = tmp_path / "run"
    folder.mkdir()
    write(folder, 1, wall_s=10.0, wait_s=4.0)
    loop = LoopTimes(str(folder), os.getuid())
    loop.look(100.0)
    (folder / "summary-1.json").write_text("{")
    loop.look(200.0)
    (folder / "summary-1.json").unlink()
    folder.rmdir()
    loop.look(1e9)
    assert loop.totals == (10.0, 4.0)


@pytest.mark.parametrize("phase", [{"wall_s": 9e17}, {"wall_s": 1.0, "wait_s": 2.0}, {"wall_s": 0}])
def test_nonsense_is_no_figure(phase: dict[str, float]) -> None:
    """A sum that a record may not hold, more waiting than time, no loop: no broken record."""
    phases = [{"wall_s": 9e17, "wait_s": 0.0, **phase}]
    assert loop_totals([{"loaders": [{"phases": phases}]}] * 2) == (None, None)
