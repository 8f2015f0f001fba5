"""Users who submit and ask as no honest one does, beside one who does, on a real Slurm."""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from contrib.bench.borders.attack import ATTACKER, VICTIM, as_user
from contrib.bench.borders.submissions import SHORT_LINES, TRIES, asks, cluster, decided, what_if
from slurm_ext.sandbox import Sandbox

pytestmark = [pytest.mark.slurm, pytest.mark.root]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Sandbox]:
    """A cluster that everybody may ask, with a deadline that a busy machine keeps."""
    with tempfile.TemporaryDirectory(prefix="dlq-") as folder:
        Path(folder).chmod(0o755)
        with cluster(Path(folder), **{"advisor.deadline_ms": 1000}) as sandbox:
            yield sandbox


def test_nobody_asks_about_another_users_jobs(slurm: Sandbox) -> None:
    """By uid or by name; a question about oneself is answered."""
    victim = as_user(VICTIM)["user"]
    for user_id in (victim, -1):
        assert "ask about your own jobs" in asks(slurm, what_if(VICTIM, user_id), 0.0)
    assert '"known":' in asks(slurm, what_if("", -1), 0.0)


def test_a_hostile_script_costs_nobody_else_an_answer(slurm: Sandbox) -> None:
    """52,000 short lines are submitted as written, and all jobs of another user decided on."""
    slurm.sbatch("-H", script=SHORT_LINES, **as_user(ATTACKER))
    assert decided(slurm) == TRIES
    assert "no advice" not in slurm.log("slurmctld")


def test_a_flood_of_questions_costs_nobody_an_answer(slurm: Sandbox) -> None:
    """Another process answers them; submissions do not wait for it."""
    question = what_if("", -1, name="job-@")
    flood = threading.Thread(target=asks, args=(slurm, question, 4.0))
    flood.start()
    try:
        assert decided(slurm) == TRIES
    finally:
        flood.join()
    assert "no advice" not in slurm.log("slurmctld")
