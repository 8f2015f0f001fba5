"""Last successes of what goes on unseen, and records that wait."""

import os
import time
from pathlib import Path

from contrib.bench.common.synthetic_history import fill
from slurm_ext.advisor.pipeline.journal import NoJournal
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.prometheus_collector import of_successes
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.cli.doctor.state import state
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.successes import REFRESH, TRAINING, last_success_s, mark_success
from slurm_ext.history.store.column_types import drop_checks
from slurm_ext.history.store.store import open_history


def findings(folder: Path) -> dict[str, str]:
    """What doctor says of the unseen tasks and of waiting records, by name."""
    found = state(Settings(values={"paths.state_dir": str(folder)}))
    wanted = ("waiting records", "refresh", "training")
    return {one.name: f"{one.status} {one.seen}" for one in found if one.name in wanted}


def test_doctor_and_metrics_know_the_last_successes(tmp_path: Path) -> None:
    """Nothing is wrong with a site that has just begun; a refresh ten minutes ago is late."""
    assert findings(tmp_path) == {"waiting records": "ok none", "training": "ok never"}
    for task in (REFRESH, TRAINING):
        mark_success(tmp_path, task)
    assert findings(tmp_path)["refresh"] == "ok 0 s ago"
    assert findings(tmp_path)["training"] == "ok 0.0 h ago"
    before_s = time.time() - 700
    os.utime(tmp_path / ".refresh-succeeded", (before_s, before_s))
    assert findings(tmp_path)["refresh"].startswith("warn 70")
    (times,) = of_successes(tmp_path)
    named = {sample.labels["task"]: sample.value for sample in times.samples}
    assert named == {task: last_success_s(tmp_path, task) for task in (REFRESH, TRAINING)}


def test_a_training_that_did_not_succeed_is_told(tmp_path: Path) -> None:
    """Its log is there for two hours, and no success since."""
    (tmp_path / "train.log").touch()
    assert findings(tmp_path)["training"] == "ok never"
    before_s = time.time() - 7200
    os.utime(tmp_path / "train.log", (before_s, before_s))
    assert findings(tmp_path)["training"] == "warn never"
    mark_success(tmp_path, TRAINING)
    assert findings(tmp_path)["training"].startswith("ok")


def test_doctor_knows_the_oldest_record_that_waits(tmp_path: Path) -> None:
    """Its age and how many wait; what is still written does not count."""
    spool = tmp_path / "spool"
    spool.mkdir()
    for name, age_s in (("a.json", 5000), ("b.json", 10), (".c.json", 9000)):
        (spool / name).touch()
        os.utime(spool / name, (time.time() - age_s,) * 2)
    assert findings(tmp_path)["waiting records"] == "warn 2, the oldest for 5000 s"


def test_a_refresh_that_fails_leaves_no_mark(tmp_path: Path) -> None:
    """A look at everything that succeeds does; only the advisor's own refresher leaves one."""
    advisor = Advisor(Settings(values={"paths.state_dir": str(tmp_path)}), NoJournal())
    Refresher(advisor, None).refresh()
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "current").symlink_to("current")
    refresher = Refresher(advisor, None, marks=True)
    refresher.refresh()
    assert refresher.faults()
    assert last_success_s(tmp_path, REFRESH) is None
    (tmp_path / "models" / "current").unlink()
    refresher.refresh()
    assert refresher.faults() == {}
    assert last_success_s(tmp_path, REFRESH) is not None


def test_a_run_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    """As an earlier version took it: those behind it are read, and it is counted."""
    fill(tmp_path / "history.db", 3)
    with open_history(tmp_path / "history.db") as history:
        drop_checks(history.db, "loader_runs")
        history.conn.execute("UPDATE loader_runs SET batch_size = 'abc' WHERE id = 2")
    advisor = Advisor(Settings(values={"paths.state_dir": str(tmp_path)}), NoJournal())
    refresher = Refresher(advisor, None)
    refresher.refresh()
    assert refresher.faults() == {}
    assert (len(advisor.runs), advisor.counters.unreadable_runs) == (2, 1)
