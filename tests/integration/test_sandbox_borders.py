"""Another user of the machine gets nothing from a sandbox of root but the right to submit."""

from pathlib import Path

import pytest

from contrib.bench.borders.attack import Attack
from contrib.bench.borders.sandbox_root import ATTACKS

pytestmark = [pytest.mark.slurm, pytest.mark.root]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_on_a_sandbox_of_root_does_no_harm(attack: Attack, short_folder: Path) -> None:
    """No key is stolen, no command of a manifest is run, no secret and no database is open."""
    happened = attack.act(short_folder)
    assert happened.held, happened.what
