"""The folder of a loop: its own process's, its advisor's to read, and clear where it is torn."""

import os
from pathlib import Path

import pytest

from slurm_ext.control.coscheduling.pair_memory import PairingFolder, PairMemory
from slurm_ext.control.energy.series import DemandRecorder
from slurm_ext.control.loops.loop_memory import LoopFolder
from slurm_ext.control.loops.loop_state import KeptFolder
from slurm_ext.core.errors import InputError
from slurm_ext.model.demand.model import SLOT_S
from slurm_ext.model.demand.series import read, series_path
from slurm_ext.training.demand.challenge import challenge_pools

SLURM = 64_030
KINDS = [LoopFolder, lambda state, _: PairingFolder(state)]


@pytest.mark.parametrize("make", KINDS)
def test_one_process_at_a_time(tmp_path: Path, make: type[LoopFolder]) -> None:
    """The other is told which command works."""
    folder = make(tmp_path, "queue")
    held = folder.lock()
    with pytest.raises(InputError, match=r"another `dlqueue control --(queue|pairs)` works"):
        make(tmp_path, "queue").lock()
    os.close(held)
    os.close(folder.lock())


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("text", ["{", "[]", "{}", "null", '{"v": 99}', '{"v": 1, "kept": 3}'])
def test_a_torn_memory_is_named(tmp_path: Path, make: type[LoopFolder], text: str) -> None:
    """Half a memory would put back half: the error names the file and says to remove it."""
    folder = make(tmp_path, "queue")
    os.close(folder.lock())
    (folder.path / "kept.json").write_text(text)
    with pytest.raises(InputError, match=r"kept\.json: cannot be used: .*; remove it"):
        folder.load()


def test_nothing_was_kept_or_told_yet(tmp_path: Path) -> None:
    """No folder is needed for that; status says so, and what it cannot read is no silence."""
    assert LoopFolder(tmp_path, "queue").load() == {}
    assert PairingFolder(tmp_path).load() == PairMemory()
    folder = KeptFolder(tmp_path, "a command")
    assert folder.told() is None
    folder.tell({"mode": "act"})
    assert folder.told() == {"mode": "act"}
    folder.silent()
    folder.silent()
    (tmp_path / "status.json").mkdir()
    with pytest.raises(InputError, match=r"status\.json"):
        folder.told()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to another user")
def test_what_a_loop_of_roots_writes_is_the_state_folders_owners(tmp_path: Path) -> None:
    """The advisor, which is not root, trains on the demand that the energy loop recorded."""
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, SLURM, SLURM)
    before = os.umask(0o077)
    try:
        folder = LoopFolder(state, "energy")
        os.close(folder.lock())
        folder.keep({"a": 1})
        folder.tell({"mode": "act"})
        series = DemandRecorder(folder.path, "gpu", None, writes=True)
        for slot in range(3):
            series.see(slot * SLOT_S, 2, 4)
        assert [one.runs for one in challenge_pools(state)] == [2]
    finally:
        os.umask(before)
    written = [*state.rglob("*")]
    assert {"lock", "kept.json", "status.json", "demand-gpu.csv"} <= {one.name for one in written}
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
    first, needed, _ = read(path)
    assert (first, needed.tolist()) == (1, [5.0, 6.0, 7.0])
