"""Predict passes on what Slurm itself would say against a script."""

from pathlib import Path

import pytest

from slurm_ext.cli.predict.refusal import refusal_of
from slurm_ext.core.settings.document import Settings


def asked(folder: Path, sbatch: str | None, *, conf: bool = True) -> str | None:
    """The refusal where `sbatch` is this shell script (None: absent)."""
    (folder / "bin").mkdir()
    if sbatch is not None:
        (folder / "bin" / "sbatch").write_text(f"#!/bin/sh\n{sbatch}\n")
        (folder / "bin" / "sbatch").chmod(0o755)
    if conf:
        (folder / "slurm.conf").write_text("")
    values = {
        "paths.slurm_bin": str(folder / "bin"),
        "paths.slurm_conf": str(folder / "slurm.conf"),
    }
    return refusal_of(Settings("x", values), "job.sh", ["1"])


def test_its_own_words_are_passed_on(tmp_path: Path) -> None:
    """With the script's arguments, as it would be submitted, and without asking dlqueue."""
    look = '[ "$DLQUEUE" = off ] && [ "$*" = "--test-only --export=ALL job.sh 1" ] || exit 0\n'
    said = 'echo "sbatch: error: invalid partition specified: x" >&2; exit 1'
    assert asked(tmp_path, look + said) == "invalid partition specified: x"


@pytest.mark.parametrize(
    "sbatch",
    [
        "echo 'sbatch: Job 1 to start at 5 using 1 processors on nodes n1' >&2",
        "echo 'sbatch: error: Unable to contact slurm controller' >&2; exit 1",
        "exit 7",
        None,
    ],
)
def test_nobody_says_no(tmp_path: Path, sbatch: str | None) -> None:
    """Accepted, away, broken or absent: nothing is said against the script."""
    assert asked(tmp_path, sbatch) is None


def test_without_a_cluster_nobody_is_asked(tmp_path: Path) -> None:
    """Slurm's commands would look for one in the network for ten seconds."""
    assert asked(tmp_path, "echo 'sbatch: error: no' >&2; exit 1", conf=False) is None
