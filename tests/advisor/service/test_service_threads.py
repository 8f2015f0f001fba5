"""Threads and child processes of the service: signals, restarts and reloads."""

import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.advisor.pipeline.journal import Journal, journals
from slurm_ext.advisor.service import metrics as metrics_module
from slurm_ext.advisor.service import service
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.child_process import HistoryWriterProcess
from slurm_ext.advisor.service.metrics import MetricsServer
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.advisor.service.warm_up import RUN, warm_up
from slurm_ext.core.errors import AdvisorError
from slurm_ext.core.settings.document import Settings
from tests.advisor.service.test_advisor_lines import journalled, settings


def test_one_advisor_for_a_folder(tmp_path: Path) -> None:
    """The folder is made; a second one is refused until the first ends."""
    state = tmp_path / "a" / "state"
    ours = Settings(values={"paths.state_dir": str(state)})
    with service._alone(ours):
        with pytest.raises(AdvisorError) as caught, service._alone(ours):
            pass
        assert str(caught.value) == f"another advisor uses {state}; stop it first"
    with service._alone(ours):
        pass
    (tmp_path / "file").touch()
    no_folder = Settings(values={"paths.state_dir": str(tmp_path / "file")})
    with pytest.raises(AdvisorError) as caught, service._alone(no_folder):
        pass
    assert str(caught.value) == f"{tmp_path / 'file'} cannot be used: File exists"


def test_metrics_are_served_where_the_settings_want_them(advisor: Advisor) -> None:
    """Else nothing is started."""
    assert service._metrics(advisor) == []
    advisor.settings = settings(metrics__listen="127.0.0.1:0")
    assert len(service._metrics(advisor)) == 1


@pytest.fixture
def metrics(advisor: Advisor) -> Iterator[MetricsServer]:
    """A server of metrics at a free port of this machine."""
    advisor.settings = settings(metrics__listen="127.0.0.1:0")
    (made,) = service._metrics(advisor)
    assert isinstance(made, MetricsServer)
    made.start()
    yield made
    made.stop()
    made.join(10.0)
    assert made._server is not None
    made._server.server_close()


def test_metrics_end_without_another_scrape(metrics: MetricsServer) -> None:
    """The service ends soon, although nobody asks any more."""
    assert metrics.is_alive()
    metrics.stop()
    metrics.join(10.0)
    assert not metrics.is_alive()


def test_a_client_that_sends_slowly_is_cut_off(
    metrics: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its time, although each of its bytes comes soon after the other."""
    monkeypatch.setattr(metrics_module, "MOST_S", 0.05)
    assert metrics._server is not None
    with socket.create_connection(("127.0.0.1", metrics._server.server_port), 5.0) as client:
        client.sendall(b"GET /metrics")
        assert client.recv(1) == b""


def test_a_signal_reloads_or_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGHUP reads settings again in each helper; SIGTERM and SIGINT end the service."""
    import gc
    import signal as signals

    calls: list[str] = []
    answers: list[bool] = []

    class Loop:
        def run(self, told: int, on_signal: Any) -> None:
            assert told == 7
            assert not gc.isenabled()
            numbers = (signals.SIGHUP, signals.SIGTERM, signals.SIGINT, signals.SIGUSR1)
            answers.extend(on_signal(bytes([number])) for number in numbers)
            answers.append(on_signal(bytes([signals.SIGHUP, signals.SIGTERM])))

    before = sys.getswitchinterval()
    monkeypatch.setattr(gc, "freeze", lambda: None)
    loop: Any = Loop()
    try:
        service._answer(loop, 7, (lambda: calls.append("a"), lambda: calls.append("b")))
        assert sys.getswitchinterval() == pytest.approx(0.0005)
    finally:
        sys.setswitchinterval(before)
    assert gc.isenabled()
    assert answers == [True, False, False, True, False]
    assert calls == ["a", "b", "a", "b"]


def test_the_history_writer_is_started_again_ever_more_slowly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """From half a second to ten; at once after a good end, anew if it worked."""
    made = HistoryWriterProcess(Path("/x.toml"))
    module = "slurm_ext.advisor.history_writer.writer"
    assert made._command == [sys.executable, "-P", "-m", module, "/x.toml"]
    assert HistoryWriterProcess(None)._command == [sys.executable, "-P", "-m", module]
    clock, waits = [0.0], list[float]()
    lives = [("ended with status 1", 1.0)] * 9 + [("", 1.0), ("x", 11.0), ("x", 10.0)]

    def lived() -> str:
        said, seconds = lives.pop(0)
        clock[0] += seconds
        return said

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return not lives

    monkeypatch.setattr(made, "_lived", lived)
    monkeypatch.setattr(made, "_stopping", SimpleNamespace(is_set=lambda: False, wait=wait))
    monkeypatch.setattr("slurm_ext.advisor.service.child_process.time.monotonic", lambda: clock[0])
    made.run()
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0, 0, 0.5, 1.0]
    assert caplog.messages[0] == "the history writer ended with status 1 and is started again"
    assert caplog.messages[9] == "the history writer ended with status 0 and is started again"
    assert len(caplog.messages) == 11


def test_how_a_history_writer_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status, nothing after a good end, or why it could not be started."""
    made = HistoryWriterProcess(None)
    for command, ended in ((["sh", "-c", "exit 3"], "ended with status 3"), (["true"], "")):
        made._command = command
        assert made._lived() == ended
        assert made._child is not None
        assert made._child.stdin is not None
        made._child.stdin.close()
    made._command = ["/nonexistent/program"]
    assert made._lived() == "could not be started (No such file or directory)"
    made = HistoryWriterProcess(None)
    made.reload_settings()
    made.stop()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        made._child = child
        made.reload_settings()
        assert child.stdout is not None
        assert child.stdout.read(1) == b"\n"
        made.stop()
        assert child.returncode == 0
        made.reload_settings()
        made.stop()
    assert made._stopping.is_set()


def test_new_settings_are_taken_with_the_next_look(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that need a restart are named."""
    caplog.set_level(logging.INFO)
    config = tmp_path / "dlqueue.toml"
    text = f'paths.state_dir = "{tmp_path}"\n'
    config.write_text(text)
    journal = Journal(tmp_path / "journal")
    made = Advisor(Settings(source=str(config), values={"paths.state_dir": str(tmp_path)}), journal)
    refresher = Refresher(made, config)
    config.write_text(f'{text}policy.min_runs = 7\npaths.socket = "/x"\n')
    refresher.refresh()
    assert made.settings["policy.min_runs"] != 7
    refresher.reload_settings()
    refresher.refresh()
    assert made.settings["policy.min_runs"] == 7
    assert caplog.messages == [
        f"settings read again from {config}",
        "paths.socket changed and will be used after a restart",
    ]
    config.write_text("nonsense")
    refresher.reload_settings()
    refresher.refresh()
    assert made.settings["policy.min_runs"] == 7
    assert caplog.messages[-1].startswith("settings stays as it was: ")
    journal.close()


def test_who_shares_is_looked_at_where_sharing_is_on(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the state folder, as run times are."""
    calls: list[Any] = []
    monkeypatch.setattr(advisor.sharing, "look", lambda folder: calls.append(("shares", folder)))
    monkeypatch.setattr(advisor.runtimes, "look", lambda folder: calls.append(("times", folder)))
    refresher = Refresher(advisor, None)
    refresher.refresh()
    assert calls == [("times", tmp_path)]
    advisor.settings = settings(paths__state_dir=str(tmp_path), sharing__mode="shadow")
    refresher.refresh()
    assert calls == [("times", tmp_path)] * 2 + [("shares", tmp_path)]


def test_the_rehearsal_answers_as_a_real_one(advisor: Advisor, tmp_path: Path) -> None:
    """With a token, a change and its line; the advisor itself counts and records nothing."""
    reply = json.loads(warm_up(advisor))
    assert reply["decision"].startswith("d1-")
    assert reply["edits"]["cpus_per_task"] > 1
    assert reply["message"].startswith("dlqueue: ")
    assert "DLQUEUE_CURVE" in reply["edits"]["env"]
    assert advisor.counters.answers == {}
    assert journalled(tmp_path) == []
    assert len(journals(tmp_path / "journal")) == 1
    assert RUN.workers == 1
