"""A program that cannot be started: why, and what to type instead."""

from pathlib import Path

import pytest

from slurm_ext.cli.common.not_started import why_not_started
from slurm_ext.cli.predict.script_file import submission
from slurm_ext.core.errors import InputError

ABSENT = FileNotFoundError(2, "No such file or directory")
FORBIDDEN = PermissionError(13, "Permission denied")
EXAMPLE = "name a program, as in `dlqueue run python train.py`"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a Python file, a script that nobody may start, a program and a folder."""
    monkeypatch.chdir(tmp_path)
    for name, mode in (("train.py", 0o644), ("job.sh", 0o644), ("a b", 0o755)):
        Path(name).write_text("#!/bin/sh\n")
        Path(name).chmod(mode)
    Path("data").mkdir()


@pytest.mark.parametrize(
    ("name", "error", "why"),
    [
        ("train.py", ABSENT, "not on PATH; the file here is started by `dlqueue run {how}`"),
        ("./job.sh", FORBIDDEN, "Permission denied; the file here is started by"),
        ("a b", ABSENT, "not on PATH; the file here is started by"),
        ("nothing", ABSENT, f"not on PATH; {EXAMPLE}"),
        ("/nowhere/train", ABSENT, f"No such file or directory; {EXAMPLE}"),
        ("./a b", FORBIDDEN, f"Permission denied; {EXAMPLE}"),
        ("data", ABSENT, f"is a folder: {EXAMPLE}"),
    ],
)
def test_what_to_type_instead(name: str, error: OSError, why: str) -> None:
    """A file of that name in this folder is named as it can be started."""
    start = {"train.py": "python train.py", "./job.sh": "bash ./job.sh", "a b": "'./a b'"}
    answer = why_not_started("run", name, error)
    assert answer.startswith(why.format(how=start.get(name)))
    assert start.get(name, "") in answer


def test_predict_tells_a_program_from_a_script_that_is_missing() -> None:
    """What is on PATH is measured by `dlqueue run`; what is nowhere is just not there."""
    with pytest.raises(InputError, match=r"`dlqueue run sh \.\.\.` measures one"):
        submission("sh", ("train.py",))
    with pytest.raises(InputError, match=r"No such file or directory$"):
        submission("nothing.sh", ())
