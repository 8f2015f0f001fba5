"""The advisor's helpers outlive whatever they meet: what is known stays in use."""

import json
import logging
import threading
from pathlib import Path

import pytest

from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.service import rules_reader
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.advisor.service.rules_reader import RulesReader
from slurm_ext.advisor.service.warm_up import JOB
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.records import Level
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_request
from slurm_ext.history.store.store import open_history
from tests.history.conftest import add_run, insert
from tests.whole import until


@pytest.fixture
def advisor(tmp_path: Path) -> Advisor:
    """Over an empty state folder."""
    settings = Settings(values={"paths.state_dir": str(tmp_path)})
    return Advisor(settings, Journal(tmp_path / "journal"))


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was warned of."""
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


def test_models_that_cannot_be_looked_at_cost_only_themselves(
    advisor: Advisor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Links in a circle, as a slip of the hand makes them: said once, the thread goes on."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "current").symlink_to("current")
    refresher = Refresher(advisor, None)
    refresher.refresh()
    refresher.refresh()
    (one,) = said(caplog)
    assert "model stays as it was" in one
    assert "cannot be read" in one


def test_a_fault_of_ours_in_one_look_does_not_end_the_others(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the advisor would answer from what it knew on that day, for months."""
    looked: list[Path] = []

    def odd(*_: object) -> None:
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr("slurm_ext.advisor.service.refresh.serving", odd)
    monkeypatch.setattr(advisor.runtimes, "look", looked.append)
    refresher = Refresher(advisor, None)
    refresher.refresh()
    refresher.refresh()
    assert len(looked) == 2
    assert said(caplog) == ["model stays as it was: ZeroDivisionError('float division by zero')"]
    assert caplog.records[0].exc_info


def test_limits_are_read_again_whatever_stood_in_the_way(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A Slurm that answers what nobody thought of is asked again."""
    found = ClusterRules()
    asked: list[object] = []

    def read(client: object) -> ClusterRules:
        asked.append(client)
        if len(asked) == 1:
            raise KeyError("gres")
        return found

    monkeypatch.setattr(rules_reader, "RETRY_S", 0.001)
    monkeypatch.setattr(rules_reader, "read_rules", read)
    reader = RulesReader(advisor)
    reader.start()
    until(lambda: advisor.rules is found, "no limits")
    reader.stop()
    reader.join(0)
    assert said(caplog) == ["limits stay as they were: 'gres'"]


def test_jobs_go_as_written_until_limits_are_known(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slurmctld that submits and does not answer yet: nobody knows what memory a job gets."""

    def read(_client: object) -> ClusterRules:
        if not answers:
            raise SlurmError("scontrol show node", 1, "Unable to contact slurm controller")
        return ClusterRules()

    answers: list[bool] = []
    monkeypatch.setattr(rules_reader, "read_rules", read)
    monkeypatch.setattr(rules_reader, "_is_there", lambda _: True)
    reader = RulesReader(advisor)
    assert not reader.look()
    assert not advisor.knows_limits
    line = encode_request("submit", JOB)
    assert json.loads(advisor.reply(line, trusted=True)[0])["edits"] == {}
    assert advisor.counters.decisions == {("none", "limits_unknown"): 1}
    answers.append(True)
    assert reader.look()
    assert advisor.knows_limits
    assert json.loads(advisor.reply(encode_request("ping"), trusted=True)[0])["limits"]


def test_limits_are_known_before_the_first_answer(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reading is waited for, but not where Slurm hangs: it asks nothing then either."""
    found, answers = ClusterRules(), threading.Event()

    def read(_client: object) -> ClusterRules:
        answers.wait()
        return found

    monkeypatch.setattr(rules_reader, "read_rules", read)
    monkeypatch.setattr(rules_reader, "FIRST_S", 0.01)
    reader = RulesReader(advisor)
    reader.start()
    reader.wait_for_first()
    assert advisor.rules is not found
    monkeypatch.setattr(rules_reader, "FIRST_S", 60.0)
    threading.Timer(0.05, answers.set).start()
    reader.wait_for_first()
    assert advisor.rules is found
    reader.stop()


def test_runs_of_the_history_have_their_gpus_name(advisor: Advisor, tmp_path: Path) -> None:
    """In the first load and in a later one; a run without a GPU has none."""
    refresher = Refresher(advisor, None)
    models = ("NVIDIA A100", None, "NVIDIA H100")
    with open_history(tmp_path / "history.db") as history:
        for number, model in enumerate(models, start=1):
            add_run(history.conn, number)
            columns = {"key_script": 7, "workers": number, "samples_per_s": 1.0}
            insert(history.conn, "loader_runs", run=number, gpu_model=model, **columns)
            refresher.refresh()
    runs = advisor.runs.newest({Level.SCRIPT: 7})[Level.SCRIPT]
    assert [(run.workers, run.gpu_model) for run in runs] == [
        (3, "NVIDIA H100"),
        (2, None),
        (1, "NVIDIA A100"),
    ]
