"""Real jobs alone and together become what training learns sharing from."""

from math import isfinite

import pytest

from slurm_ext.core.gpu_sharing import SpeedBasis
from slurm_ext.history.store.store import open_history
from slurm_ext.model.slowdown.model import slowdown_model
from slurm_ext.sandbox import Sandbox
from slurm_ext.training.slowdown import rows as slowdown_rows
from slurm_ext.training.slowdown.history_runs import sharing_history
from tests.conftest import MakeSandbox
from tests.whole import asked, history_db, until

pytestmark = pytest.mark.slurm

SETTINGS = {
    "site.mode": "shadow",
    "node.sample_s": 0.2,
    "advisor.reconcile_s": 0.5,
}
# Begins its work when so many are there, so that two are together from then on.
SCRIPT = """#!/bin/sh
touch {folder}/$SLURM_JOB_ID
until [ $(ls {folder} | wc -l) -ge $MANY ]; do sleep 0.02; done
exec python3 -c 'print({work}(range(10**7 * 3)))'
"""


def run(slurm: Sandbox, *works: str) -> None:
    """A job of each work, at once; waits until the history has them."""
    folder = slurm.path(f"meet-{'-'.join(works)}")
    folder.mkdir()
    before = len(asked(slurm, "SELECT 1 FROM runs"))
    for work in works:
        script = SCRIPT.format(folder="$MEET", work=work)
        slurm.sbatch(f"--export=ALL,MANY={len(works)},MEET={folder}", f"-J{work}", script=script)
    wanted = before + len(works)
    until(lambda: len(asked(slurm, "SELECT 1 FROM runs")) >= wanted, "the runs were not taken in")


def test_two_jobs_that_met_are_foretold_from_it(
    make_sandbox: MakeSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run's time alone and together, with whom, and its counters: a pair's own evidence."""
    monkeypatch.setattr(slowdown_rows, "SHORTEST_S", 0.1)
    slurm = make_sandbox(cpus=4, hooks=True, lua=True, advisor=True, settings=SETTINGS)
    for works in (("sum",), ("max",), ("sum", "max")):
        run(slurm, *works)
    with open_history(history_db(slurm), read_only=True) as history:
        found = sharing_history(history)
    assert len(found.solos) == 2
    assert all(isfinite(value) for solo in found.solos.values() for value in solo.features.values())
    # On a machine busy with other things a run may seem slower than standing still: it is refused.
    assert 1 <= len(found.rows) + found.refused <= 2
    assert {(len(row.together.partners), row.together.device) for row in found.rows} <= {(1, "cpu")}
    known = slowdown_model([row.together for row in found.rows], found.solos)
    for row in found.rows:
        one, other = (found.solos[name] for name in (row.together.job, *row.together.partners))
        assert known.speed(one, [other]).evidence is SpeedBasis.PAIR
