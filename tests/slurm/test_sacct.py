"""sacct as it is asked: by moments that no clock change doubles or skips."""

import os
from pathlib import Path

import pytest

from slurm_ext.core.errors import SlurmError
from slurm_ext.slurm import CommandClient
from slurm_ext.slurm import sacct as slurm_sacct

FAKE = """#!/bin/sh
printf '%s\\037%s\\037%s\\037%s\\n' "$TZ" "$SLURM_TIME_FORMAT" "$SACCT_LOCAL" "$*"
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
    ((zone, form, _, *words),) = slurm_sacct.ended(["JobID"], first, second, env=env)
    assert (zone, form) == ("UTC", "%s")
    assert words[-1].endswith("--starttime 2026-10-25T00:30:00 --endtime 2026-10-25T01:30:00")


def test_only_this_clusters_jobs_are_asked_for(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A federation may show those of all its clusters by default."""
    monkeypatch.setenv("PATH", env["PATH"])
    ((_, _, local, *_),) = slurm_sacct.ended(["JobID"], 0.0, 1.0, env=env)
    assert local == "1"


def test_no_sacct_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One error, with its name."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SlurmError, match="sacct is not here: install Slurm's client commands"):
        list(slurm_sacct.ended(["JobID"], 0.0, 1.0))


def test_a_long_time_is_asked_for_by_and_by() -> None:
    """Every moment once."""
    found = slurm_sacct.windows(0.0, 70 * 86400.0)
    assert [until for _, until in found[:-1]] == [since for since, _ in found[1:]]
    assert (found[0][0], found[-1][1], len(found)) == (0.0, 70 * 86400.0, 3)


CAPTURED = Path(__file__).parent / "data/22.05/sacct_ends.txt"
_CONFIG = """echo "AccountingStorageType   = accounting_storage/{storage}" """


@pytest.mark.parametrize(("storage", "count"), [("slurmdbd", 5), ("none", 0)])
def test_ends_are_slurmdbds(tmp_path: Path, storage: str, count: int) -> None:
    """Each start with Slurm's word, times as seconds; without slurmdbd nobody is asked."""
    for name, text in (("scontrol", _CONFIG.format(storage=storage)), ("sacct", f"cat {CAPTURED}")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    ends = CommandClient(bin_dir=str(tmp_path)).ends([108, 114, 135, 171], 0.0)
    assert len(ends) == count
    if ends:
        first, again, _, _, last = ends
        assert (first.state, first.user_id, first.end_time_s) == ("CANCELLED", 0, 1795478585)
        assert (again.job_id, again.state, again.start_time_s) == (114, "REQUEUED", 1795478580)
        assert (last.state, last.end_time_s) == ("RUNNING", None)
