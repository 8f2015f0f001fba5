"""Names by which a program has its data, as far as looking for them takes no longer than it may."""

import pytest

from slurm_ext.probe.program.holders import Holders


class Kept:
    """Has a list under a name."""

    def __init__(self, items: list[object]) -> None:
        self.items = items


def test_who_has_a_list_is_found_until_looking_took_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond that nobody knows who writes to it: a look goes through all objects of the process."""
    kept = Kept([object()])
    monkeypatch.setattr(Holders, "looked_s", 0.0)
    assert "items" in Holders([kept.items]).attributes
    assert 0 < Holders.looked_s < 10
    monkeypatch.setattr(Holders, "looked_s", 10.0)
    assert Holders([kept.items]).unknown
