"""One Unix user's measurements neither change another's job nor are told to others."""

from pathlib import Path

import pytest

from contrib.bench.borders.attack import Attack
from contrib.bench.borders.evidence import ATTACKS

pytestmark = [pytest.mark.slurm, pytest.mark.root]
HERE = {"steer_a_stranger", "ask_for_anothers_runs"}  # the others differ by what unit tests show


@pytest.mark.parametrize(
    "attack", [one for one in ATTACKS if one.name in HERE], ids=lambda attack: attack.name
)
def test_an_attack_by_evidence_does_no_harm(attack: Attack, short_folder: Path) -> None:
    """A stranger's first job stays as written, and a victim's figures stay its own."""
    happened = attack.act(short_folder)
    assert happened.held, happened.what
