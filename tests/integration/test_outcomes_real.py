"""A real sbatch of a job whose changes brought nothing: it is left as written, and told why."""

import json

import pytest

from tests.conftest import MakeSandbox
from tests.whole import (
    ACTING,
    WHOLE,
    advisor_runs,
    asked,
    dlqueue,
    put,
    teach,
    until,
    waiting_run,
)

pytestmark = pytest.mark.slurm
SCRIPT = "#!/bin/bash\n#SBATCH --job-name=missed\ntrue missed\n"
TOKENS = "SELECT token FROM decisions WHERE job_name = 'missed' ORDER BY id"


def test_three_outcomes_that_miss_stop_acting(make_sandbox: MakeSandbox) -> None:
    """As fast with more workers as with one: not what was promised, so the fourth is not changed.

    `explain` says of a run that it was not as predicted.
    """
    slurm = make_sandbox(**WHOLE, settings=ACTING)
    teach(slurm, "missed")
    submitted = [slurm.sbatch("-H", script=SCRIPT) for _ in range(3)]
    assert all("dlqueue: " in said and "workers 1 -> " in said for _, said in submitted)
    until(lambda: len(asked(slurm, TOKENS)) == 3, "the decisions never came to the ledger")
    tokens = [token for (token,) in asked(slurm, TOKENS)]
    before = advisor_runs(slurm)
    for (job_id, _), token in zip(submitted, tokens, strict=True):
        record = {**waiting_run("missed", job_id), "decision": token}
        put(slurm, f"{record['record_id']}.json", json.dumps(record).encode())
    until(lambda: advisor_runs(slurm) == before + 3, "the runs never came")
    _, said = slurm.sbatch("-H", script=SCRIPT)
    assert "dlqueue advises " in said
    assert "Not changed: its last " in said
    verdict = "verdict:  outside its interval beside other jobs, below it"  # the nearer of two
    assert verdict in dlqueue(slurm, "explain", tokens[-1])
