"""Outcomes in a real history: the advisor, and `predict` without one, widen and stop alike."""

import json
from collections import Counter
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.pipeline.decide import decide
from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.from_history import context_from_history
from slurm_ext.advisor.service.recommendation_json import recommendation_json
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.cli.explain.text import lines
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_request
from slurm_ext.history.store.names import KEY_OF_LEVEL
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views.outcomes import fair_outcomes, outcomes_of_user, stopped_scripts
from slurm_ext.history.views.self_metrics import read_self_metrics
from slurm_ext.questions.explain.document import explained
from tests.history.conftest import add_decision, add_run, insert

SCRIPT = "#!/bin/sh\n#SBATCH --cpus-per-task=1\npython train.py\n"
JOB = Submission(
    name="train.sh",
    user_name="ada",
    user_id=1000,
    num_tasks=1,
    cpus_per_task=1,
    script=SCRIPT,
    partition="gpu",
)
STARVED: dict[str, Any] = {  # one worker where eight would do: storage answers late
    "workers": 1,
    "cores": 1.0,
    "batch_size": 8.0,
    "accel_samples_per_s": 100.0,
    "fetch_wall_s": 0.08,
    "fetch_cpu_s": 0.001,
    "main_cpu_s": 0.0001,
    "node_cores": 16,
    "user_workers": 1,
    "emulated": 0,
    "gpus": 0,
}
RATE = 12.0
MISSES = 5.0  # predicted, and RATE came
WHY = "its last 3 runs were not as predicted"


def ran(
    history: History, number: int, predicted: float, job: Submission = JOB, **decided: Any
) -> None:
    """A claimed decision that predicted so many samples/s, and its run, which did RATE."""
    conn, keys = history.conn, keys_of(job)
    columns = {name: keys[level] for level, name in KEY_OF_LEVEL.items() if level in keys}
    rates = {"samples_per_s": predicted, "low": predicted / 1.2, "high": predicted * 1.2}
    row: dict[str, Any] = {"action": "leave", "level": "same script", "runs": 3, "mode": "shadow"}
    row |= {f"{when}_{name}": rate for when in ("before", "after") for name, rate in rates.items()}
    row |= {f"{when}_bottleneck": "data" for when in ("before", "after")}
    who = {"user": job.user_name, "uid": job.user_id, "partition": job.partition}
    shapes = {"before_cpus": 1, "before_workers": 1, "after_cpus": 1, "after_workers": 8}
    token = f"d1-{number:016x}"
    add_decision(conn, token, **{**row, **who, **shapes, **columns, "job_id": number, **decided})
    add_run(conn, number, decision=token, user=job.user_name, uid=job.user_id)
    insert(conn, "loader_runs", run=number, samples_per_s=RATE, **STARVED, **columns)


@pytest.fixture
def advisor(tmp_path: Path) -> Advisor:
    """An acting advisor over an empty state folder."""
    values = {"paths.state_dir": str(tmp_path), "site.mode": "act", "policy.holdout_share": 0.0}
    open_history(tmp_path / "history.db").close()
    return Advisor(Settings(values=values), Journal(tmp_path / "journal"))


@pytest.fixture
def refresher(advisor: Advisor) -> Refresher:
    """What keeps its memory up to date."""
    return Refresher(advisor, None)


def submitted(advisor: Advisor, job: Submission = JOB) -> dict[str, Any]:
    """The reply to slurmctld."""
    reply, _ = advisor.reply(encode_request("submit", job), trusted=True)
    answer: dict[str, Any] = json.loads(reply)
    return answer


def predicted(advisor: Advisor, job: Submission = JOB) -> dict[str, Any]:
    """The answer to `dlqueue predict`, which is the same with and without the advisor."""
    reply, _ = advisor.reply(encode_request("predict", job), trusted=False)
    told: dict[str, Any] = json.loads(reply)
    known = context_from_history(advisor.settings, job)
    alone = recommendation_json(known, decide(job, known))
    for name in ("mode", "action", "stopped"):
        assert told[name] == alone[name]
    for name in ("predicted_before", "predicted_after"):
        assert told[name]["interval"] == pytest.approx(alone[name]["interval"])
    return told


def test_three_outcomes_that_miss_leave_a_job_as_written(
    advisor: Advisor, refresher: Refresher
) -> None:
    """It is told why; and acted on again when an outcome falls inside its interval."""
    with open_history(advisor.settings.state_dir / "history.db") as history:
        for number in (1, 2):
            ran(history, number, MISSES)
        refresher.refresh()
        acting, before = submitted(advisor), predicted(advisor)
        assert "DLQUEUE_NUM_WORKERS" in acting["edits"]["env"]
        assert before["stopped"] is None
        ran(history, 3, MISSES)
        refresher.refresh()
        stopped, after = submitted(advisor), predicted(advisor)
        assert set(stopped["edits"]["env"]) == {"DLQUEUE_DECISION"}
        assert stopped["message"].startswith("dlqueue advises workers 1 -> ")
        assert stopped["message"].endswith(f"Not changed: {WHY}.")
        assert (after["stopped"], after["mode"]) == (WHY, "advise")
        assert list(stopped_scripts(history.conn, history.path).values()) == [WHY]
        ran(history, 4, RATE)
        refresher.refresh()
        assert "DLQUEUE_NUM_WORKERS" in submitted(advisor)["edits"]["env"]
        assert predicted(advisor)["stopped"] is None
        assert stopped_scripts(history.conn, history.path) == {}


def test_one_miss_widens_the_next_interval_of_that_job_alone(
    advisor: Advisor, refresher: Refresher
) -> None:
    """In its partition; another user's same program keeps the interval that it has."""
    bob = replace(JOB, user_name="bob", user_id=1001)
    with open_history(advisor.settings.state_dir / "history.db") as history:
        for number in range(1, 9):
            ran(history, number, RATE, JOB if number % 2 else bob)
        refresher.refresh()
        jobs = (JOB, bob, replace(JOB, partition="old"))
        before = [predicted(advisor, job)["predicted_before"] for job in jobs]
        ran(history, 9, MISSES)
        refresher.refresh()
        after = [predicted(advisor, job)["predicted_before"] for job in jobs]
    assert _width(after[0]) > 3 * _width(before[0])
    assert _width(after[1]) == pytest.approx(_width(before[1]))
    assert _width(after[2]) < 1.5 * _width(before[2])


def _width(told: dict[str, Any]) -> float:
    low, high = told["interval"]
    return float(log(high / low))


def test_explain_says_whether_a_run_was_as_predicted(tmp_path: Path) -> None:
    """With the reason that its record knows."""
    with open_history(tmp_path / "history.db") as history:
        ran(history, 1, RATE)
        ran(history, 2, 40.0)
        for other in (7, 8):
            beside = {"job_id": other, "overlap_s": 9.0, "shared_cpus": 2, "shared_sockets": 1}
            insert(history.conn, "corunners", run=2, **beside)
        good, bad = (list(lines(explained(history, str(number)))) for number in (1, 2))
    assert "verdict:  inside its interval" in good
    why = "2 other jobs wanted the same cores"
    assert f"verdict:  outside its interval, below it: {why}" in bad


def test_a_flood_of_outcomes_hides_nobody_elses(tmp_path: Path) -> None:
    """However many one user has: the others' are counted, and their scripts stay stopped."""
    mallory = replace(JOB, user_name="mallory", user_id=1001)
    with open_history(tmp_path / "history.db") as history:
        for number in range(1, 11):
            ran(history, number, MISSES)
        for number in range(11, 711):
            ran(history, number, RATE, mallory)
        newest = fair_outcomes(history.conn, history.path, 60)
        assert Counter(one.user for one in newest) == {"ada": 10, "mallory": 50}
        assert [user for user, _ in stopped_scripts(history.conn, history.path)] == ["ada"]
        assert len(outcomes_of_user(history.conn, history.path, "ada")) == 10


def test_a_decision_counts_once_however_many_nodes_its_job_had(tmp_path: Path) -> None:
    """Three nodes are no three outcomes in a row; the middle one stands for them."""
    with open_history(tmp_path / "history.db") as history:
        ran(history, 1, MISSES)
        for number, achieved in ((2, 50.0), (3, 40.0), (4, None)):
            add_run(history.conn, number, job_id=1, node=f"n{number}", decision=f"d1-{1:016x}")
            insert(history.conn, "loader_runs", run=number, samples_per_s=achieved)
        (one,) = outcomes_of_user(history.conn, history.path, "ada")
        assert one.achieved == 40.0
        assert stopped_scripts(history.conn, history.path) == {}


def test_the_ledger_knows_what_was_dropped_and_how_the_newest_did(tmp_path: Path) -> None:
    """Coverage of the newest twenty beside that of all; records beyond the bounds."""
    with open_history(tmp_path / "history.db") as history:
        for number in range(1, 41):
            ran(history, number, RATE if number <= 20 or number % 2 else 99.0)
        history.conn.execute("UPDATE set_aside_dropped SET records = 7")
        found = read_self_metrics(history.conn, history.path)
    assert found.beliefs is not None
    assert (found.beliefs.coverage, found.beliefs.newest_coverage) == (0.75, 0.5)
    assert found.dropped == 7
