"""A job's Python processes without the probe are counted from /proc."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_ext.node.common.job import PROBE_SITE
from slurm_ext.node.kernel import pythons
from slurm_ext.node.kernel.processes import JobProcesses
from slurm_ext.node.kernel.pythons import Pythons, isolated
from tests.whole import until

WITH = {"PYTHONPATH": f"{PROBE_SITE}:/elsewhere", "DLQUEUE_RUN_DIR": "/nowhere"}
LATER_S = 1e9  # everything is old by then


@contextmanager
def running(argv: list[str], env: dict[str, str]) -> Iterator[JobProcesses]:
    """The processes of a job that is this one program, which waits."""
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE) as process:
        # Popen returns while the kernel still builds the new program's arguments.
        until(Path(f"/proc/{process.pid}/cmdline").read_bytes, "the program does not start")
        job = JobProcesses(1, os.getuid(), "node")
        job.update([process.pid], switches=False)
        try:
            yield job
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("options", "env", "expected"),
    [
        ([], WITH, 0),
        (["-u"], WITH, 0),
        ([], {}, 1),  # env -i, or unset
        ([], {**WITH, "PYTHONPATH": "."}, 1),
        ([], {**WITH, "PYTHONPATH": f"{PROBE_SITE}/elsewhere"}, 1),
        ([], {**WITH, "PYTHONPATH": f".:{PROBE_SITE}"}, 0),
        ([], {"DLQUEUE": "off"}, 0),
        (["-I"], WITH, 1),
        (["-S"], WITH, 1),
    ],
)
def test_a_python_without_the_probe_is_counted(
    options: list[str], env: dict[str, str], expected: int
) -> None:
    """By its environment and its options, once however often it is seen."""
    argv = [sys.executable, *options, "-c", "input()"]
    with running(argv, env) as job:
        seen = Pythons(PROBE_SITE)
        seen.look(job.members, LATER_S)
        seen.look(job.members, LATER_S)
        assert seen.unprobed == expected


def test_what_is_no_python_says_nothing() -> None:
    """No Python was seen: that is not the same as none without the probe."""
    with running(["/bin/cat"], {}) as job:
        seen = Pythons(PROBE_SITE)
        seen.look(job.members, LATER_S)
        assert seen.unprobed is None


def test_what_has_just_begun_is_judged_later() -> None:
    """A hook, or a shell that becomes the program: nothing is said of a young process."""
    with running([sys.executable, "-c", "input()"], {}) as job:
        (process,) = job.members.values()
        seen = Pythons(PROBE_SITE)
        seen.look(job.members, process.started / os.sysconf("SC_CLK_TCK") + 1.0)
        assert seen.unprobed is None
        seen.look(job.members, process.started / os.sysconf("SC_CLK_TCK") + 3.0)
        assert seen.unprobed == 1


def test_another_sampler_goes_on_counting() -> None:
    """The count of the state file is where it starts."""
    with running([sys.executable, "-c", "input()"], {}) as job:
        seen = Pythons(PROBE_SITE, 2)
        seen.look(job.members, LATER_S)
        assert seen.unprobed == 3


def test_many_processes_cost_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many are looked at in one sample, the rest in none; what is gone is passed over."""
    monkeypatch.setattr(pythons, "MAX_LOOKS", 3)
    with running([sys.executable, "-c", "input()"], {}) as job:
        ((pid, process),) = job.members.items()
        for number in range(1, 9):
            (tmp_path / str(number)).symlink_to(f"/proc/{pid}")
        seen = Pythons(PROBE_SITE, proc=str(tmp_path))
        seen.look(dict.fromkeys(range(20, 22), process), LATER_S)
        assert seen.unprobed is None
        seen.look(dict.fromkeys(range(1, 9), process), LATER_S)
        assert seen.unprobed == 3


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("python train.py -I", False),
        ("python -m train -S", False),
        ("python -c pass -E", False),
        ("python -W ignore -X importtime train.py", False),
        ("python -Wignore::ImportWarning train.py", False),
        ("python -uE train.py", True),
        ("python -X dev -sS train.py", True),
        ("python --check-hash-based-pycs always -I", False),
        ("python - -I", False),
        ("python", False),
    ],
)
def test_options_are_those_before_the_program(words: str, expected: bool) -> None:
    """Values of options and the program's own arguments are none of Python's."""
    assert isolated(words.replace(" ", "\0").encode() + b"\0") is expected
