"""Fixtures of every test: real Slurms, made on demand and gone afterwards."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from slurm_ext.sandbox import Sandbox, SandboxSpec
from slurm_ext.sandbox.spec import search_path
from tests.job_numbers import first_job_line
from tests.once import once
from tests.order import in_turn
from tests.wheel import build
from tests.whole import stay_recorded

pytest_plugins = ["tests.again", "tests.garbage", "tests.quiet", "tests.skips"]
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the cores are shared out already
MakeSandbox = Callable[..., Sandbox]
# No test asserts a time. Where a change is judged, examples are few and the same each time (`make
# test`, or CI in the environment): a rare find is for whoever hunts, not for whoever comes by.
_profile = hypothesis.settings.register_profile
_profile("local", deadline=None)
_profile("ci", deadline=None, derandomize=True, max_examples=30)
_profile("hunt", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("ci" if "CI" in os.environ else "local")

NEEDED = ("slurmctld", "slurmd", "sbatch", "munged")
PATIENT = {"advisor.deadline_ms": 1000}  # the longest there is: a busy machine is no fault


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files, and skip what this machine cannot run, saying what it lacks."""
    missing = [name for name in NEEDED if shutil.which(name, path=search_path()) is None]
    no_slurm = pytest.mark.skip(reason=f"needs {', '.join(missing)} (contrib/packaging/setup.sh)")
    no_root = pytest.mark.skip(reason="needs root")
    in_turn(items)
    for item in items:
        if missing and item.get_closest_marker("slurm"):
            item.add_marker(no_slurm)
        if os.geteuid() != 0 and item.get_closest_marker("root"):
            item.add_marker(no_root)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder short enough for sockets and open to munge, unlike tmp_path."""
    yield from _short_folder()


@pytest.fixture
def make_sandbox() -> Iterator[MakeSandbox]:
    """`make_sandbox(nodes=2, gpus=1, ...)`: a Slurm that is up, taken down after the test."""
    yield from _factory()


@pytest.fixture(scope="module")
def make_module_sandbox() -> Iterator[MakeSandbox]:
    """As `make_sandbox`, for fixtures that a whole module shares."""
    yield from _factory()


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """One plain Slurm (two nodes of four CPUs, nothing of ours) for all tests; do no harm."""
    for make in _factory():
        yield make(nodes=2, cpus=4)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a site gets it."""
    (made,) = once(tmp_path_factory, "wheel", build).glob("*.whl")
    return made


def _short_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="dlq-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _factory() -> Iterator[MakeSandbox]:
    made: list[Sandbox] = []

    def make(**fields: Any) -> Sandbox:
        root = Path(tempfile.mkdtemp(prefix="dlq-"))
        own = {"settings": {**PATIENT, **fields.get("settings", {})}}
        own["slurm_conf"] = first_job_line() + fields.get("slurm_conf", "")
        spec = SandboxSpec(**{**fields, **own})
        made.append(Sandbox(root, spec, temporary=True))
        return made[-1].up()

    yield make
    try:
        for one in made:
            stay_recorded(one)
    finally:
        for one in made:
            one.down()
