"""A run in which a test is skipped for a reason of its own fails, and says so."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.manual import ROOT

NOT_INSTALLED = 'import pytest\npytest.importorskip("nonesuch")\ndef test_never(): pass\n'
SKIPS = 'import pytest\ndef test_it(): pytest.skip("{}")\ndef test_other(): pass\n'


def run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """One run of pytest over a file of its own."""
    (folder / "test_made_up.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.skips", "-p", "no:cacheprovider"]
    place = ["-c", "/dev/null", "--rootdir", str(folder), str(folder)]
    return subprocess.run(
        [*command, *options, *place], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_a_made_up_reason_fails_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The reason, how often, and the test are named; with pytest-xdist, too."""
    done = run(tmp_path, SKIPS.format("a whim"), *options)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 SKIPPED: a whim (test_made_up.py::test_it)" in done.stdout


def test_a_file_that_lacks_a_package_fails_the_run(tmp_path: Path) -> None:
    """A file that is skipped as a whole is a skip like others."""
    done = run(tmp_path, NOT_INSTALLED)
    assert done.returncode != pytest.ExitCode.OK
    assert "SKIPPED: could not import 'nonesuch'" in done.stdout


def test_a_listed_reason_is_counted_and_passes(tmp_path: Path) -> None:
    """An ordinary user may run the tests: what needs root is counted."""
    done = run(tmp_path, SKIPS.format("needs root: it gives files away"))
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "1 skipped: needs root: it gives files away" in done.stdout
