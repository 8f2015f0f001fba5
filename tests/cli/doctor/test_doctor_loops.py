"""A loop that is turned on and does not run is told, with the unit that starts it."""

import time
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli.control.loops import LOOPS
from slurm_ext.cli.doctor.loops import LATE_S, loops
from slurm_ext.control.loops.loop_state import cluster_state
from slurm_ext.core.settings.document import Settings

UNITS = Path(__file__).parents[3] / "site_config" / "systemd"


def settings(folder: Path, **more: Any) -> Settings:
    """With this state folder."""
    return Settings(values={"paths.state_dir": str(folder), **more})


def test_what_is_off_is_not_looked_for(tmp_path: Path) -> None:
    """Nor anything on a machine without the advisor's folder, such as a node."""
    assert list(loops(settings(tmp_path))) == []
    assert list(loops(settings(tmp_path / "none", **{"queue.mode": "act"}))) == []


@pytest.mark.parametrize("kind", LOOPS)
def test_a_loop_that_does_not_run_is_told_with_its_unit(tmp_path: Path, kind: str) -> None:
    """Until it has looked; and again when it has not for long."""
    told = settings(tmp_path, **{f"{kind}.mode": "shadow"})
    (found,) = loops(told)
    assert (found.name, found.status) == (f"{kind} loop", "warn")
    assert f"dlqueue-{kind}" in found.advice
    assert (UNITS / f"dlqueue-{kind}.service").exists()
    folder = cluster_state(tmp_path, kind)
    folder.path.mkdir(parents=True)
    for ago_s, status in ((0.0, "ok"), (LATE_S + 60, "warn")):
        folder.write_status({"mode": "shadow", "at_s": time.time() - ago_s})
        assert [found.status for found in loops(told)] == [status]
    for body in ("{", "[]", '{"at_s": null}', '{"at_s": "x"}'):
        (folder.path / "status.json").write_text(body)
        assert [found.status for found in loops(told)] == ["warn"]
