"""Pairs that the pairing of CPU jobs found to go badly are kept apart at submission, too."""

import json
import logging
import os
from pathlib import Path

import pytest

from slurm_ext.advisor.sharing.memory import SharingMemory
from slurm_ext.advisor.sharing.pair_blocklist import PairBlocklist
from slurm_ext.control.coscheduling.pair_memory import PairMemory, pair_state
from slurm_ext.core.errors import InputError
from slurm_ext.policy.colocation.colocation_monitor import KEEP_S, PairCooldown
from tests.advisor.sharing.test_sharing import ADAS, NOW, memory, thought, why

BAD = frozenset({"mine", "kind"})


def remembering(state_dir: Path, *pairs: frozenset[str], at_s: float = NOW - 60) -> SharingMemory:
    """The advisor's memory after a look at what the pairing keeps."""
    folder = pair_state(state_dir)
    os.close(folder.lock())
    folder.keep(PairMemory(cooldowns={pair: PairCooldown(at_s) for pair in pairs}).as_json())
    held = memory(ADAS)
    held.cooldowns.look(state_dir)
    return held


def test_a_pair_that_went_badly_does_not_share(tmp_path: Path) -> None:
    """However well it is predicted to go; for as long as it is remembered."""
    assert "below the floor together lately" in why(remembering(tmp_path, BAD))
    found = thought(remembering(tmp_path, BAD, at_s=NOW - KEEP_S - 1))
    assert found is not None
    assert found.share


def test_a_job_that_hurts_its_own_twin_does_not_meet_it(tmp_path: Path) -> None:
    """Two runs of one script are a pair as well."""
    twins = remembering(tmp_path, frozenset({"mine"}))
    twins.queue = memory().queue
    assert "below the floor together lately" in why(twins)


def test_others_are_not_concerned(tmp_path: Path) -> None:
    """Nor is anybody where no pairing works."""
    found = thought(remembering(tmp_path, frozenset({"mine", "cruel"})))
    assert found is not None
    assert found.share
    silent = PairBlocklist()
    silent.look(tmp_path / "nowhere")
    assert silent.known == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"v": 2}', '{"v": 1, "grudges": [[1]]}', "[" * 9999])
def test_a_damaged_memory_is_said_and_the_last_one_kept(tmp_path: Path, text: str) -> None:
    """One error that names the file; what was known before is known on."""
    held = remembering(tmp_path, BAD)
    (tmp_path / "pairing" / "kept.json").write_text(text)
    with pytest.raises(InputError, match=r"kept\.json: is not the pairing's memory"):
        held.cooldowns.look(tmp_path)
    assert set(held.cooldowns.known) == {BAD}
    held.cooldowns.look(tmp_path)  # said once


@pytest.mark.root
def test_the_advisor_may_read_what_root_remembers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Folder and file belong to whom the state folder belongs to."""
    os.chown(tmp_path, 65534, 65534)
    with caplog.at_level(logging.WARNING):
        remembering(tmp_path, BAD)
    kept = tmp_path / "pairing" / "undo.json"
    assert {kept.stat().st_uid, kept.parent.stat().st_uid} == {65534}
    assert json.loads(kept.read_text())["kept"]["grudges"] == [[sorted(BAD), NOW - 60, 1]]


def test_the_file_of_an_older_version_is_read(tmp_path: Path) -> None:
    """Until the loop writes its own; the two formats say the same."""
    folder = tmp_path / "pairing"
    folder.mkdir()
    old = {"v": 1, "leases": {}, "grudges": [[sorted(BAD), NOW - 60, 1]], "solo_rates": {}}
    (folder / "kept.json").write_text(json.dumps(old))
    blocklist = PairBlocklist()
    blocklist.look(tmp_path)
    assert set(blocklist.known) == {BAD}
    pair_state(tmp_path).keep(PairMemory().as_json())
    blocklist.look(tmp_path)
    assert blocklist.known == {}
