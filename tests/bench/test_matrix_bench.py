"""The matrix: what pytest says of a release is what the page says of it."""

import json
from pathlib import Path

import pytest

from contrib.bench.matrix import runs
from contrib.bench.matrix.page import page
from contrib.bench.matrix.reports import FAILED, Case, Release, read_cases
from contrib.bench.matrix.runs import HERE, release_of
from slurm_ext.core.errors import InputError, SandboxError

TESTS = """
import pytest
def test_passes(): pass
def test_fails(): assert 1 == 2, "two lines\\nof a reason"
def test_breaks(missing): pass
@pytest.mark.skip(reason="no GPU")
def test_is_skipped(): pass
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for reports, and a slurmctld that tells its release."""
    program = tmp_path / "bin" / "slurmctld"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho slurm-wlm 22.05.8\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(runs, "ROOTS", tmp_path)
    return tmp_path


def test_a_release_is_tested_once_and_told(slurm: Path) -> None:
    """Each outcome is counted; failures and reasons are named; what is kept is not run again."""
    (slurm / "test_of_it.py").write_text(TESTS)
    tests = [str(slurm / "test_of_it.py")]
    found = release_of(HERE, slurm, tests, 0)
    assert (found.version, found.counts()) == ("22.05.8", {"failed": 2, "passed": 1, "skipped": 1})
    assert [case.name for case in found.of(FAILED)] == ["test_breaks", "test_fails"]
    (slurm / "test_of_it.py").unlink()
    assert release_of(HERE, slurm, tests, 0) == found
    text = page([found])
    assert "| **all** | **2 failed**, 1 passed, 1 skipped |" in text
    assert "::test_fails`: AssertionError: two lines\n" in text
    assert "- 22.05.8: 1 with: no GPU\n" in text


def test_a_release_that_did_not_run_has_no_report(slurm: Path) -> None:
    """No line of the table says that nothing failed where nothing ran."""
    with pytest.raises(SandboxError, match="here: the tests did not run: pytest ended with"):
        release_of(HERE, slurm, [str(slurm / "absent.py")], 0)
    (slurm / "bin" / "slurmctld").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(SandboxError, match="here: no slurmctld"):
        release_of(HERE, slurm, [], 0)
    assert not list(slurm.glob("*.json"))


def test_damaged_reports_are_named(tmp_path: Path) -> None:
    """A file that a full disk cut off is not taken for a release without failures."""
    report = tmp_path / "here.xml"
    report.write_text("<testsuites><testsuite>")
    with pytest.raises(InputError, match="is no JUnit report"):
        read_cases(report)
    report.write_text("<testsuites/>")
    (tmp_path / "here.json").write_text(json.dumps({"version": "1"}))
    with pytest.raises(InputError, match="is no run of a release"):
        release_of(HERE, tmp_path, [], 1)


def test_a_test_that_was_run_again_counts_as_it_ended(tmp_path: Path) -> None:
    """The report has it twice."""
    report = tmp_path / "here.xml"
    case = '<testcase classname="tests.test_a" name="test_b">{}</testcase>'
    report.write_text(f"<s>{case.format('<failure/>')}{case.format('')}</s>")
    assert read_cases(report) == [Case(file="tests/test_a.py", name="test_b", outcome="passed")]


def test_a_file_that_one_release_lacks_is_told() -> None:
    """A column says so rather than leave out the row."""
    cases = [Case(file="tests/test_a.py", name="test_b", outcome="passed")]
    both = [
        Release(suite=suite, version=suite, commit="c", seconds=60, cases=cases * n)
        for n, suite in enumerate(("old", "new"))
    ]
    assert "| tests/test_a.py | none | 1 passed |" in page(both)
