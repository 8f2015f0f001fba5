"""SECURITY.md names what shows each border: tests and attacks that there are."""

import re

import pytest

from contrib.bench.borders.__main__ import attacks
from slurm_ext.core.settings.table import TABLE
from tests.house import PACKAGE

ROOT = PACKAGE.parent
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`(tests/[\w/.]+)`", PAGE)))
SETTINGS = sorted(set(re.findall(r"`((?:advisor|policy|sharing|node)\.\w+)`", PAGE)))


@pytest.mark.parametrize("name", TESTS)
def test_a_named_test_is_there(name: str) -> None:
    """Whoever moves a test moves its name on the page, too."""
    assert (ROOT / name).is_file()


@pytest.mark.parametrize("name", [attack.name for attack in attacks()])
def test_each_attack_is_on_the_page(name: str) -> None:
    """And so is the border that it is tried on."""
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", SETTINGS)
def test_a_named_setting_is_one(name: str) -> None:
    """A reader can set what the page leaves to a site."""
    assert name in {setting.key for setting in TABLE}
