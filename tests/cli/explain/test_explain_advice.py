"""First advice on a run in a history: `explain`, the report and their JSON have the same one."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.advice.training import Job, record
from slurm_ext.cli.common.advice_text import clause
from slurm_ext.cli.explain.text import lines
from slurm_ext.core.settings.document import load
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views import advice, queries
from slurm_ext.history.views.advice import job_advice
from slurm_ext.questions.explain.document import explained
from slurm_ext.report.sections.build import report_of
from tests.cli.test_schemas import faults
from tests.history.conftest import add_run
from tests.house import PACKAGE

GOLDEN = PACKAGE.parent / "tests" / "golden" / "spool" / "v1.json"
SLEEPY = Job(workers=1, sleep_s=0.012, cpu_s=0.001, step_s=0.04, mem_bytes=1 << 40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with one run, whose one worker sleeps."""
    spool = tmp_path_factory.mktemp("site") / "spool"
    spool.mkdir()
    run = json.loads(GOLDEN.read_text())
    made: dict[str, Any] = record(SLEEPY, random.Random(1))
    parts = {name: made[name] for name in ("allocation", "counters", "corunners")}
    summary = json.loads((GOLDEN.parents[1] / "probe" / "v1.json").read_text())
    own = {**made["probe"]["summaries"][0], "pid": 1, "torch": "2.13.0", "python": "3.11"}
    summaries = [{**summary, "optimizer": None, "directive": None, **own}]
    run |= {**parts, "timeline": None, "probe": {"summaries": summaries, "faults": []}}
    (spool / "cluster-1042-0-n1.json").write_text(json.dumps(run))
    with open_history(spool.parent / "history.db") as history:
        ingest_folder(history, spool, now_s=1_760_000_100.0)
    (spool.parent / "dlqueue.toml").write_text(f'[paths]\nstate_dir = "{spool.parent}"\n')
    return spool.parent


def test_explain_tells_the_first_advice(folder: Path) -> None:
    """Cause, seconds of the run and the option, in the JSON as its schema says and in the text."""
    with open_history(folder / "history.db", read_only=True) as history:
        document = explained(history, "1042")
    (first, *_) = document["runs"][0]["advice"]
    assert (first["word"], first["action"]) == ("data", "more_workers")
    assert faults("explain", {**document, "queue": None, "running": None}) == []
    assert f"advice:   {clause(first)}" in list(lines(document))


def test_of_an_array_one_tasks_advice_reads_that_task_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task has its array's number, by which all of the others would be read, too."""
    shutil.copytree(folder, copy := tmp_path / "array")
    read: list[int] = []

    def counted(history: History, *named: int) -> dict[str, Any] | None:
        found = queries.job(history, *named)
        read.append(len(found["runs"]) if found else 0)
        return found

    monkeypatch.setattr(advice, "job", counted)
    with open_history(copy / "history.db") as history:
        history.conn.execute("UPDATE runs SET array_job_id = job_id, array_task_id = 2")
        add_run(history.conn, 90, job_id=1041, array_job_id=1042, array_task_id=1)
        assert job_advice(history, 1042) is not None
    assert read == [1]


def test_the_report_has_it_beside_the_script(folder: Path) -> None:
    """The scripts that could gain most come with what to do about them."""
    with open_history(folder / "history.db", read_only=True) as history:
        report = report_of(history, load(folder / "dlqueue.toml"), now_s=1_760_000_200.0)
    waste = next(section for section in report.sections if section.key == "waste")
    scripts = next(table for table in waste.tables if table.key == "scripts")
    assert [column.key for column in scripts.columns][-1] == "advice"
    assert str(scripts.rows[0][-1]).startswith("more workers: its CPUs have time to spare (")
