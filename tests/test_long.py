"""What only `make test-long` runs has a short form in `make test`, which it names."""

import re
from pathlib import Path

import pytest

from tests.manual import ROOT

TESTS = ROOT / "tests"
MARK = "pytest.mark." + "long("
NAMED = re.compile(re.escape(MARK) + r'\s*short="([\w/]+\.py)::(\w+)"\s*\)')
MARKED = {path: path.read_text() for path in TESTS.rglob("test_*.py") if MARK in path.read_text()}


@pytest.mark.parametrize("path", MARKED, ids=lambda path: path.name)
def test_a_long_test_names_its_short_form(path: Path) -> None:
    """A test that is there, and runs with all others."""
    named = NAMED.findall(MARKED[path])
    assert len(named) == MARKED[path].count(MARK)
    for file, test in named:
        text = (TESTS / file).read_text()
        (decorated,) = (part for part in text.split("\n\n\n") if f"\ndef {test}(" in f"\n{part}")
        assert MARK not in decorated
        assert not re.search(r"^pytestmark = [^=]*" + re.escape(MARK), text, re.MULTILINE)
