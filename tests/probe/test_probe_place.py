"""Rank and world size of a process, from what torch, its launcher or Slurm say."""

import os

import pytest

from slurm_ext.probe.summary import place


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
