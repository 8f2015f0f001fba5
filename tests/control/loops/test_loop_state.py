"""The folder of a loop: its own process's, its advisor's to read, and clear where it is torn."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.allocator.undo_log import allocator_state
from slurm_ext.control.coscheduling.pair_memory import pair_state
from slurm_ext.control.energy.series import DemandRecorder
from slurm_ext.control.loops.loop_state import LoopState, cluster_state
from slurm_ext.core.errors import InputError
from slurm_ext.model.demand.model import SLOT_S
from slurm_ext.model.demand.series import read, series_path
from slurm_ext.node.common.spool_layout import Spool
from slurm_ext.training.demand.challenge import challenge_pools

SLURM = 64_030
STATES: list[Callable[[Path], LoopState]] = [
    lambda folder: cluster_state(folder, "queue"),
    pair_state,
    lambda folder: allocator_state(Spool(str(folder))),
]


@pytest.fixture(params=STATES, ids=["queue", "pairs", "allocator"])
def make(request: pytest.FixtureRequest) -> Callable[[Path], LoopState]:
    """How the state of one loop is made."""
    state: Callable[[Path], LoopState] = request.param
    return state


def test_one_process_at_a_time(tmp_path: Path, make: Callable[[Path], LoopState]) -> None:
    """The second process is refused with the command of the first."""
    lock = make(tmp_path).lock()
    with pytest.raises(InputError, match=r"another `dlqueue control( --(queue|pairs))?` works"):
        make(tmp_path).lock()
    os.close(lock)
    os.close(make(tmp_path).lock())


@pytest.mark.parametrize("name", ["undo.json", "kept.json"])
@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", "null", '{"v": 99}', '{"v": 1}', '{"v": 1, "kept": 3}']
)
def test_a_torn_undo_file_is_an_error(
    tmp_path: Path, make: Callable[[Path], LoopState], text: str, name: str
) -> None:
    """Half an undo would put back half: the error names the file and says to remove it."""
    state = make(tmp_path)
    os.close(state.lock())
    (state.path / name).write_text(text)
    with pytest.raises(InputError, match=rf"{name}: cannot be used: .*; remove it"):
        state.load(dict)


def test_what_was_kept_is_loaded(tmp_path: Path, make: Callable[[Path], LoopState]) -> None:
    """Nothing at first, then what was kept last, nothing when it is forgotten."""
    state = make(tmp_path)
    os.close(state.lock())
    assert state.load(dict) == {}
    state.keep({"a": 1})
    state.keep({"a": 2})
    assert make(tmp_path).load(dict) == {"a": 2}
    state.forget()
    state.forget()
    assert state.load(dict) == {}


OLD = [
    ({"v": 1, "kept": {"nices": {"7": [10]}}}, {"nices": {"7": [10]}}),
    ({"v": 1, "leases": {}, "grudges": [], "solo_rates": {}},) * 2,
    ({"boot_id": "b", "jobs": {"1.0": {}}},) * 2,
]


@pytest.mark.parametrize(("body", "kept"), OLD)
def test_the_file_of_an_older_version_is_read_until_the_loop_writes(
    tmp_path: Path, body: dict[str, Any], kept: dict[str, Any]
) -> None:
    """Each of the three formats; it wins over an undo.json from before a downgrade."""
    state = cluster_state(tmp_path, "queue")
    os.close(state.lock())
    state.keep({"stale": True})
    (state.path / "kept.json").write_text(json.dumps(body))
    assert state.load(dict) == kept
    state.keep({"new": True})
    assert state.load(dict) == {"new": True}
    assert not (state.path / "kept.json").exists()


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """Its status is only in the object."""
    state = cluster_state(tmp_path, "queue", writes=False)
    state.keep({"a": 1})
    state.write_status({"mode": "shadow"})
    assert state.status == {"mode": "shadow"}
    assert list(tmp_path.iterdir()) == []


def test_the_status_is_there_while_a_loop_runs(tmp_path: Path) -> None:
    """None before and after it; one that cannot be read is an error."""
    state = LoopState(tmp_path, "a command")
    assert state.read_status() is None
    state.write_status({"mode": "act"})
    assert state.read_status("mode") == {"mode": "act"}
    with pytest.raises(InputError, match=r"status\.json"):
        state.read_status("mode", "jobs")
    state.remove_status()
    state.remove_status()
    assert state.read_status() is None
    (tmp_path / "status.json").mkdir()
    with pytest.raises(InputError, match=r"status\.json"):
        state.read_status()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to another user")
def test_what_a_loop_of_roots_writes_is_the_state_folders_owners(tmp_path: Path) -> None:
    """The advisor, which is not root, trains on the demand that the energy loop recorded."""
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, SLURM, SLURM)
    before = os.umask(0o077)
    try:
        folder = cluster_state(state, "energy")
        os.close(folder.lock())
        folder.keep({"a": 1})
        folder.write_status({"mode": "act"})
        series = DemandRecorder(folder.path, "gpu", None, writes=True)
        for slot in range(3):
            series.see(slot * SLOT_S, 2, 4)
        assert [one.runs for one in challenge_pools(state)] == [2]
    finally:
        os.umask(before)
    written = [*state.rglob("*")]
    assert {"lock", "undo.json", "status.json", "demand-gpu.csv"} <= {one.name for one in written}
    assert {one.stat().st_uid for one in written} == {SLURM}


def test_a_line_cut_off_half_way_spoils_no_other(tmp_path: Path) -> None:
    """A full disk took half of a slot: joined with the next, it would be one in thousands of years.

    All that was recorded before would then lie before a gap, and be forgotten.
    """
    path = series_path(tmp_path, "gpu")
    path.write_text(f"{SLOT_S},5,9\n{2 * SLOT_S},6,9\n18")
    series = DemandRecorder(tmp_path, "gpu", None, writes=True)
    for slot in (3, 4):
        series.see(slot * SLOT_S, 7, 9)
    known = read(path)
    assert (known.first, known.need.tolist()) == (1, [5.0, 6.0, 7.0])
