"""One release's run of the tests, in the root of its Debian, kept for the next start."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from contrib.bench.common.tree import commit
from contrib.bench.matrix.reports import Release, read_cases
from slurm_ext.core.errors import InputError, SandboxError

HERE = "here"  # the machine's own Slurm
ROOT = Path(__file__).resolve().parents[3]
ROOTS = Path("build/slurm")  # what is in the checkout is seen from within another release's root
_ENDED = (0, 1)  # pytest's: all passed, or some did not


def release_of(suite: str, folder: Path, tests: Sequence[str], workers: int) -> Release:
    """Run `tests` (words for pytest) under a release, or read what `folder` has of it.

    Raises SandboxError if they did not run, InputError on a damaged folder.
    """
    kept, report = folder / f"{suite}.json", folder / f"{suite}.xml"
    if not kept.exists():
        _measure(suite, folder, tests, workers)
    try:
        return Release(suite=suite, cases=read_cases(report), **json.loads(kept.read_text()))
    except (ValueError, TypeError) as error:
        raise InputError(str(kept), f"is no run of a release: {error}") from None


def _measure(suite: str, folder: Path, tests: Sequence[str], workers: int) -> None:
    inside = _inside(suite)
    version = subprocess.run(
        [*inside, "slurmctld", "-V"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    ).stdout.split()
    if not version:
        raise SandboxError(
            f"{suite}: no slurmctld; see above, and contrib/packaging/other_slurm.sh"
        )
    report, began_s = ROOTS / f"{suite}.xml", time.monotonic()
    _pytest(suite, [*inside, *_words(report, workers), *tests])
    figures = {
        "version": version[-1],
        "commit": commit(),
        "seconds": round(time.monotonic() - began_s),
    }
    (ROOT / report).replace(folder / f"{suite}.xml")
    (folder / f"{suite}.json").write_text(json.dumps(figures) + "\n")


def _pytest(suite: str, argv: Sequence[str]) -> None:
    """Run it; what it prints is the progress, and so goes where people look."""
    status = subprocess.run(argv, cwd=ROOT, stdout=sys.stderr, check=False).returncode
    if status not in _ENDED:
        raise SandboxError(f"{suite}: the tests did not run: pytest ended with status {status}")


def _inside(suite: str) -> list[str]:
    if suite == HERE:
        return []
    return ["contrib/packaging/other_slurm.sh", suite, str(ROOTS / suite)]


def _words(report: Path, workers: int) -> list[str]:
    words = [".venv/bin/python", "-m", "pytest", "-q", f"--junitxml={report}"]
    return [*words, f"-n{workers}", "--dist=loadfile", "--no-loadscope-reorder"]
