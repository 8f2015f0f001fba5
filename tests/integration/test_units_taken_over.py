"""Whoever takes a service over can do little more than the service's work."""

from pathlib import Path

import pytest

from contrib.bench.borders.units import take_over

pytestmark = pytest.mark.root


def test_a_service_that_was_taken_over_stays_in_its_unit(short_folder: Path) -> None:
    """It writes, traces, mounts and reads nothing of others but what the unit's work needs."""
    happened = take_over(short_folder)
    assert happened.held, happened.what
