"""Another Unix user on a real Slurm: what his jobs leave on a node harms nobody else."""

from pathlib import Path

import pytest

from contrib.bench.borders import gpu_sharing, run_folder

pytestmark = [pytest.mark.slurm, pytest.mark.root]
ATTACKS = {attack.name: attack for attack in (*run_folder.ATTACKS, *gpu_sharing.ATTACKS)}


@pytest.mark.parametrize("name", ["nested_folders", "fake_mps"])
def test_a_users_leavings_harm_nobody(short_folder: Path, name: str) -> None:
    """Records of others are delivered, and their jobs have their share of the GPU by MPS."""
    short_folder.chmod(0o755)
    happened = ATTACKS[name].act(short_folder)
    assert happened.held, happened.what
