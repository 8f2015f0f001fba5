"""State and action log of a loop: folders, durable files, writers that wait their turn."""

import json
import os
import stat
import time
from pathlib import Path

import pytest

from slurm_ext.control.elastic.elastic_loop import KIND as ELASTIC
from slurm_ext.control.lending.node_loop import KIND as ALLOCATOR
from slurm_ext.control.loops import action_log as action_log_module
from slurm_ext.control.loops import loop_state
from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.control.loops.control_loop import LoopKind
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.control.queue.queue_loop import KIND as QUEUE
from slurm_ext.core.actions import Action
from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import Settings


def test_the_folder_of_a_loop_is_its_own(tmp_path: Path) -> None:
    """0700, its files 0600; a second process is refused by path and command."""
    prepared: list[int] = []
    state = LoopState(tmp_path / "x", "a command", prepare=lambda: prepared.append(1))
    lock = state.lock()
    state.keep({"a": 1})
    state.write_status({"b": 2})
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.path.iterdir()}
    assert modes == {"lock": 0o600, "undo.json": 0o600, "status.json": 0o600}
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700
    assert json.loads((state.path / "undo.json").read_text()) == {"v": 1, "kept": {"a": 1}}
    with pytest.raises(InputError, match=f"^{tmp_path}/x: another `a command` works$"):
        state.lock()
    assert prepared == [1, 1]
    os.close(lock)


@pytest.mark.parametrize("durable", [True, False])
def test_an_undo_file_is_durable_where_a_reboot_undoes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    """The status never is: it is shown while the loop runs."""
    written: list[tuple[str, bool]] = []

    def replace_file(path: Path, body: bytes, *, mode: int, durable: bool) -> None:
        written.append((path.name, durable))
        path.write_bytes(body)

    monkeypatch.setattr(loop_state, "replace_file", replace_file)
    state = LoopState(tmp_path, "a command", durable=durable)
    state.keep({})
    state.write_status({})
    assert written == [("undo.json", durable), ("status.json", False)]


@pytest.mark.parametrize("kind", [QUEUE, ELASTIC, ALLOCATOR], ids=lambda kind: kind.name)
def test_only_the_nodes_own_changes_end_with_its_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: LoopKind
) -> None:
    """Slurm keeps nices and sizes, so their undo files are durable; a cgroup's weight is gone."""
    written = []

    def replace_file(path: Path, body: bytes, *, mode: int, durable: bool) -> None:
        written.append(durable)
        path.write_bytes(body)

    monkeypatch.setattr(loop_state, "replace_file", replace_file)
    values = {"paths.state_dir": str(tmp_path), "node.spool_dir": str(tmp_path)}
    state = kind.state(Settings(values=values), True)
    state.path.mkdir(parents=True)
    state.keep({})
    assert written == [kind is not ALLOCATOR]


def test_a_version_that_is_not_known_is_named(tmp_path: Path) -> None:
    """With the one that is expected; the error says to remove the file."""
    state = LoopState(tmp_path, "a command")
    (tmp_path / "undo.json").write_text('{"v": 2, "kept": {}}')
    why = "cannot be used: ValueError('version 2, expected 1'); remove it"
    with pytest.raises(InputError) as caught:
        state.load(dict)
    assert str(caught.value) == f"{tmp_path}/undo.json: {why}"
    (tmp_path / "undo.json").unlink()
    (tmp_path / "undo.json").mkdir()
    with pytest.raises(InputError, match=r"undo\.json: cannot be (used|read)"):
        state.load(dict)


def test_a_file_that_another_writer_holds_is_tried_100_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """0.02 s apart; then its lines are kept in memory and written with the next."""
    waits: list[float] = []
    tries = [0]

    def try_lock(_: int) -> bool:
        tries[0] += 1
        return tries[0] > 100

    monkeypatch.setattr(action_log_module, "try_lock", try_lock)
    monkeypatch.setattr(time, "sleep", waits.append)
    log = ActionLog(tmp_path, "queue", clock=lambda: 0.0)
    row = Action(at_s=1.0, kind="queue", mode="act", subject="7", done="nice=1", why="because")
    log.write([row])
    assert (waits, log.kept) == ([0.02] * 100, 1)
    message = f"{tmp_path}/moves: another loop holds the file; actions are kept in memory"
    assert caplog.messages == [message]
    log.write([])
    assert (tries, log.kept) == ([101], 0)
    (path,) = (tmp_path / "moves").iterdir()
    assert path.name == "queue-19700101.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_at_most_10000_actions_wait_in_memory() -> None:
    """As the log says when the oldest are lost."""
    assert action_log_module.MOST_KEPT == 10_000
