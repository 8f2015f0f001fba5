"""The gain is one number: per decision, against the holdout, the same wherever it is told."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.service.prometheus_collector import of_history
from slurm_ext.cli import main
from slurm_ext.cli.explain.text import lines
from slurm_ext.core.stats import FEWEST
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views.gain import estimate_gain
from slurm_ext.questions.explain.document import explained
from tests.report.conftest import site

JOBS = 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A site with an empty history."""
    site(tmp_path)
    return tmp_path


@pytest.fixture
def history(folder: Path) -> Iterator[History]:
    """Decisions of 40 jobs, every second one held out; changed ones ran at twice the rate."""
    with open_history(folder / "history.db") as opened:
        for number in range(1, JOBS + 1):
            spread = 1.1 if number // 2 % 2 else 0.9
            decide(opened, number, holdout=number % 2)
            put_run(opened, number, (1.0 if number % 2 else 2.0) * spread)
        yield opened


def decide(history: History, job_id: int, *, holdout: int = 0, **columns: Any) -> None:
    """A claimed decision; as written, the job was expected to run at one sample/s."""
    row = {
        "token": f"t{job_id}",
        "state": "claimed",
        "decided_s": 1.0,
        "job_id": job_id,
        "mode": "act",
        "holdout": holdout,
        "action": "change",
        "reason": "",
        "factor": 1.0,
        "before_samples_per_s": 1.0,
        "after_samples_per_s": 1.5,
        "edits": "{}",
        **{
            f"{shape}_{end}": 1
            for shape in ("before", "after")
            for end in ("low", "high", "cpus", "workers")
        },
        "level": "same script",
        "runs": 3,
        "before_bottleneck": "data",
        "after_bottleneck": "data",
        **columns,
    }
    history.db.table("decisions").insert(row)


def put_run(
    history: History, job_id: int, rate: float, *, token: str | None = None, **columns: Any
) -> None:
    """One run, with the job's own token or another one's."""
    number = history.conn.execute("SELECT count(*) FROM runs").fetchone()[0] + 1
    row = {
        "id": number,
        "record_id": f"r{number}",
        "cluster": "c",
        "job_id": job_id,
        "restart": 0,
        "node": "n",
        "state": "COMPLETED",
        "source": "epilog",
        "ingested_s": 1.0,
        "end_s": 1e9,
        "elapsed_s": 60.0,
        "decision": token or f"t{job_id}",
        **columns,
    }
    history.db.table("runs").insert(row)
    history.db.table("loader_runs").insert({"run": number, "samples_per_s": rate})


def test_report_prometheus_and_explain_tell_the_same_gain(
    history: History, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where one decision became many runs, of which a mean over runs would make another."""
    for _ in range(30):
        put_run(history, 2, 8.0)
    ratio = estimate_gain(history.conn).ratio
    assert ratio is not None
    expected = {"value": ratio.value, "low": ratio.low, "high": ratio.high}
    (gauge,) = (metric for metric in of_history(folder) if metric.name == "dlqueue_gain_ratio")
    scraped = {sample.labels["bound"]: sample.value for sample in gauge.samples}
    assert scraped == {
        "mean": expected["value"],
        "low": expected["low"],
        "high": expected["high"],
    }
    document = explained(history, "2")
    assert document["gain"] == {
        "changed": JOBS // 2,
        "control": JOBS // 2,
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
    }
    assert any(line.startswith("gain:") for line in lines(document))
    assert main(["report", "--config", str(folder / "dlqueue.toml"), "--json"]) == 0
    (section,) = (s for s in json.loads(capsys.readouterr().out)["sections"] if s["key"] == "gain")
    (row,) = section["tables"][0]["rows"]
    assert {"value": row["gain"], "low": row["low"], "high": row["high"]} == expected


def test_the_gain_is_the_ratio_of_both_groups(history: History) -> None:
    """Twice the rate is a gain of two, with an interval around it."""
    ratio = estimate_gain(history.conn).ratio
    assert ratio is not None
    assert ratio.value == pytest.approx(2.0)
    assert 1.8 < ratio.low < 2 < ratio.high < 2.2
    assert math.isclose(math.sqrt(ratio.low * ratio.high), ratio.value)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [
        (1.0, "That is not chance."),
        (0.5, "That may be chance: the interval holds 0 %."),
        (0.25, "That is not chance: they ran slower."),
    ],
)
def test_a_loss_is_as_sure_as_a_gain(
    history: History, folder: Path, capsys: pytest.CaptureFixture[str], factor: float, verdict: str
) -> None:
    """The report speaks of chance only where the interval holds 0 %, and names a proven loss."""
    changed = "UPDATE loader_runs SET samples_per_s = samples_per_s * ? WHERE run % 2 = 0"
    history.conn.execute(changed, (factor,))
    assert main(["report", "--config", str(folder / "dlqueue.toml"), "--json"]) == 0
    (section,) = (s for s in json.loads(capsys.readouterr().out)["sections"] if s["key"] == "gain")
    assert section["lead"][0].endswith(f" {verdict}")


@pytest.mark.parametrize("missing", [0, 1])
def test_a_gain_needs_enough_of_both_groups(history: History, folder: Path, missing: int) -> None:
    """With FEWEST decisions there is one, with one fewer there is none, and nothing is told."""
    history.conn.execute(
        "DELETE FROM decisions WHERE holdout AND job_id > ?", (2 * (FEWEST - missing),)
    )
    gain = estimate_gain(history.conn)
    assert (gain.control.n, gain.ratio is None) == (FEWEST - missing, bool(missing))
    names = {metric.name for metric in of_history(folder)}
    assert ("dlqueue_gain_ratio" in names) == (not missing)
    assert (explained(history, "2")["gain"] is None) == bool(missing)


@pytest.mark.parametrize(
    "other",
    [{"mode": "shadow"}, {"action": "leave"}, {"state": "proposed"}, {"before_samples_per_s": 0.0}],
    ids=str,
)
def test_only_eligible_decisions_count(history: History, other: dict[str, Any]) -> None:
    """What was not acted on, not claimed or not predicted is in neither group."""
    before = estimate_gain(history.conn)
    decide(history, 99, **other)
    put_run(history, 99, 50.0)
    assert estimate_gain(history.conn) == before


def test_a_token_that_was_handed_down_to_another_job_does_not_count(history: History) -> None:
    """A job that submits another hands its environment down: the first job's run is the outcome."""
    before = estimate_gain(history.conn)
    put_run(history, 1000, 50.0, token="t2")
    assert estimate_gain(history.conn) == before
