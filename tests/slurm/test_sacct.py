"""sacct as it is asked: by moments that no clock change doubles or skips."""

import os
from pathlib import Path

import pytest

from slurm_ext.core.errors import SlurmError
from slurm_ext.slurm import sacct as slurm_sacct

FAKE = """#!/bin/sh
printf '%s\\037%s\\037%s\\n' "$TZ" "$SLURM_TIME_FORMAT" "$*"
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """With a sacct that says how it was asked, on a machine in Berlin."""
    program = tmp_path / "sacct"
    program.write_text(FAKE)
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TZ": "Europe/Berlin"}


def test_moments_are_asked_for_in_utc(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of summer 02:30 is there twice: asked for in local time, an hour would be lost."""
    monkeypatch.setenv("PATH", env["PATH"])
    first, second = 1_792_888_200.0, 1_792_891_800.0  # 2026-10-25, both 02:30 in Berlin
    ((zone, form, *words),) = slurm_sacct.ended(["JobID"], first, second, env=env)
    assert (zone, form) == ("UTC", "%s")
    assert words[-1].endswith("--starttime 2026-10-25T00:30:00 --endtime 2026-10-25T01:30:00")


def test_no_sacct_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One error, with its name."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlurmError, match="sacct: No such file"):
        list(slurm_sacct.ended(["JobID"], 0.0, 1.0))


def test_a_long_time_is_asked_for_by_and_by() -> None:
    """Every moment once."""
    found = slurm_sacct.windows(0.0, 70 * 86400.0)
    assert [until for _, until in found[:-1]] == [since for since, _ in found[1:]]
    assert (found[0][0], found[-1][1], len(found)) == (0.0, 70 * 86400.0, 3)
