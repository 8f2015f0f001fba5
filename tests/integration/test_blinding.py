"""A job's own summary costs nobody else's records, on a real Slurm, as another Unix user."""

import pytest

from contrib.bench.borders.attack import ATTACKER, VICTIM, as_user
from contrib.bench.borders.blinding import job_script, summary
from slurm_ext.history.store.store import open_history
from slurm_ext.history.views.queries import job
from tests.conftest import MakeSandbox
from tests.whole import until

pytestmark = [pytest.mark.slurm, pytest.mark.root]


def test_wrong_types_in_a_summary_blind_nobody(make_sandbox: MakeSandbox) -> None:
    """The attacker's run counts without them and says so; the victim's is as it would have been."""
    slurm = make_sandbox(hooks=True, advisor=True, cpus=2)
    hostile = job_script(summary(batch_size=[1]), summary(batch_size="abc"))
    jobs = []
    for user, script in ((ATTACKER, hostile), (VICTIM, job_script(summary()))):
        job_id, _ = slurm.sbatch(script=script, **as_user(user))
        slurm.wait(job_id)
        jobs.append(job_id)
    database = slurm.path("dlqueue/history.db")

    def taken() -> bool:
        if not database.exists():
            return False
        with open_history(database, read_only=True) as history:
            return all(job(history, number) for number in jobs)

    until(taken, "a record waits for ever")
    with open_history(database, read_only=True) as history:
        attacked, honest = (job(history, number) for number in jobs)
    assert attacked is not None
    assert honest is not None
    (run,) = attacked["runs"]
    assert run["loader_samples_per_s"] is None
    assert run["probe"]["summaries"] == []
    assert sum("batch_size is" in fault for fault in run["probe"]["faults"]) == 2
    assert honest["runs"][0]["loader_samples_per_s"] == 8.0
