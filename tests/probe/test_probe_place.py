"""Rank and world size of a process, from what torch, its launcher or Slurm say."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from slurm_ext.probe.directive import Directive
from slurm_ext.probe.faults import Faults
from slurm_ext.probe.summary import place
from slurm_ext.probe.summary_writer import SummaryWriter


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, (0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4"}, (3, 4)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, (0, 1)),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "٣"}, (0, 1)),
    ],
)
def test_the_place_of_a_process(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], expected: tuple[int, int]
) -> None:
    """A batch script of a job with four tasks is no rank of four: it runs once."""
    for name in ("RANK", "WORLD_SIZE", *(n for n in os.environ if n.startswith("SLURM_"))):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert place() == expected


def test_a_process_that_left_its_group_keeps_its_rank(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """mp.spawn's processes leave it at their end, and nothing in their environment names it."""
    for name in ("RANK", "WORLD_SIZE", *(n for n in os.environ if n.startswith("SLURM_"))):
        monkeypatch.delenv(name, raising=False)
    group = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda: 5,
        get_world_size=lambda: 8,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    directive = Directive({"DLQUEUE_RUN_DIR": str(tmp_path)})
    writer = SummaryWriter(directive, dict, Faults())
    writer.note_group()
    group.is_initialized = lambda: False
    writer.write(True)
    (path,) = tmp_path.iterdir()
    written = json.loads(path.read_text())
    assert (written["rank"], written["world_size"]) == (5, 8)
    assert written["torch"] == torch.__version__
