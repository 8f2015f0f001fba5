"""Another Unix user on a real Slurm forges records, copies a token, and says nothing."""

from pathlib import Path

import pytest

from contrib.bench.borders import records, stream
from contrib.bench.borders.attack import Attack

pytestmark = [pytest.mark.slurm, pytest.mark.root]
TRIED = ("evidence_for_another_from_owners", "copied_token", "silent_connections")
ATTACKS = [one for one in (*records.ATTACKS, *stream.ATTACKS) if one.name in TRIED]


@pytest.mark.parametrize("attack", ATTACKS, ids=[one.name for one in ATTACKS])
def test_no_user_acts_as_another_or_stops_deliveries(attack: Attack, short_folder: Path) -> None:
    """The victim's history and decision are the victim's; records come through."""
    happened = attack.act(short_folder)
    assert happened.held, happened.what
