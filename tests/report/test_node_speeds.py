"""Slow nodes in the report and in `doctor`: named with their evidence and what to do."""

import time
from math import exp
from pathlib import Path

import numpy as np
import pytest

from slurm_ext.cli.doctor.speeds import speeds
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.store.store import open_history
from slurm_ext.history.views.period_view import Period
from slurm_ext.report.context import ReportContext, UserNames
from slurm_ext.report.sections.node_speeds import section
from tests.history.conftest import add_run, insert

HOUR = 3600.0


def fill(folder: Path, *, slow: str | None, runs: int = 400, **of_slow: int) -> None:
    """Runs of four users on five nodes up to now; those of one node are a fifth slower.

    `of_slow`: other facts of runs on that node, where all are on CPUs with 64 cores.
    """
    dice, now_s = np.random.default_rng(3), time.time()
    with open_history(folder / "history.db") as history, history.transaction():
        for number in range(1, runs + 1):
            node, user = f"n{dice.integers(5)}", int(dice.integers(4))
            rate = 100 * exp(dice.normal(0, 0.03)) / (1.2 if node == slow else 1)
            end_s = now_s - (runs - number) * HOUR
            add_run(history.conn, number, node=node, user=f"u{user}", end_s=end_s)
            loader = {"accel_samples_per_s": rate, "key_script_args": user, "nodes": 1, "gpus": 1}
            loader |= {"on_cpu": 1, "node_cores": 64} if of_slow else {}
            loader |= of_slow if node == slow else {}
            insert(history.conn, "loader_runs", run=number, batch_size=32.0, **loader)


def asked(folder: Path) -> list[tuple[str, str, str]]:
    """The findings of `doctor`: status, seen, advice."""
    settings = Settings(values={"paths.state_dir": str(folder)})
    return [(one.status, one.seen, one.advice) for one in speeds(settings)]


def test_doctor_names_the_slow_node_and_how_to_avoid_it(tmp_path: Path) -> None:
    """With by how much, on how many runs of how many users."""
    fill(tmp_path, slow="n2")
    ((status, seen, advice),) = asked(tmp_path)
    assert status == "warn"
    assert seen.startswith("n2: a step takes ")
    assert "of 4 users" in seen
    assert "--exclude=n2 " in advice


def test_doctor_is_content_with_healthy_nodes(tmp_path: Path) -> None:
    """It says how many it compared; without a history it says nothing."""
    assert asked(tmp_path) == []
    fill(tmp_path, slow=None)
    assert asked(tmp_path) == [("ok", "none of 5 compared", "")]


def test_a_node_with_another_cpu_is_not_blamed(tmp_path: Path) -> None:
    """A node of the generation before is as slow as it should be; one of as many cores is not."""
    fill(tmp_path, slow="n2", node_cores=40)
    assert [status for status, _, _ in asked(tmp_path)] == ["ok"]
    (tmp_path / "history.db").unlink()
    fill(tmp_path, slow="n2", node_cores=64)
    ((status, seen, advice),) = asked(tmp_path)
    assert (status, seen[:3]) == ("warn", "n2:")
    assert advice.endswith("unless its CPU is just older")


@pytest.mark.parametrize("runs", [0, 2])
def test_too_few_runs_blame_nobody(tmp_path: Path, runs: int) -> None:
    """A new site."""
    fill(tmp_path, slow="n2", runs=runs)
    assert asked(tmp_path) == [("ok", "too few runs to compare", "")]


def test_the_report_has_every_node_the_slow_ones_first(tmp_path: Path) -> None:
    """Its advice stands beside the slow one alone."""
    fill(tmp_path, slow="n4")
    with open_history(tmp_path / "history.db", read_only=True) as history:
        period = Period(since_s=0.0, until_s=1e12)
        people = UserNames("none")
        told = section(ReportContext(history=history, period=period, people=people, now_s=0.0))
    assert told.answer.startswith("1 node: n4 takes ")
    nodes, gpus = told.tables
    assert nodes.rows[0][0] == "n4"
    assert "--exclude=n4" in nodes.rows[0][-1]
    assert [row[-1] for row in nodes.rows[1:]] == [""] * 4
    assert gpus.rows == []
