"""Who holds a job: one process, and nobody after it, whatever children it leaves."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.node.common import state
from tests.node.by_hand import Node, wait_for

HOLD = """
import os, sys, time
from slurm_ext.node.common import state
from slurm_ext.node.counters.gpu import nvml
held = state.lock(sys.argv[1])
held.sign()
{child}
print(pid, flush=True)
time.sleep(600)
"""
CHILDREN = {
    "any": "pid = os.fork()\nif pid == 0:\n    time.sleep(600)",
    "a reader of GPUs that hangs at once": (
        "nvml._become_reader = lambda *_: time.sleep(600)\n"
        "gpus = nvml.NvmlClient()\ngpus._start()\npid = gpus._pid"
    ),
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Of a lock."""
    return str(tmp_path / "lock")


@pytest.fixture(params=CHILDREN)
def family(request: pytest.FixtureRequest, path: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock, and a child of its that lives on."""
    words = [sys.executable, "-c", HOLD.format(child=CHILDREN[request.param]), path]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    yield parent
    parent.kill()
    parent.wait()
    os.kill(child, signal.SIGKILL)
    parent.stdout.close()


def test_a_killed_holder_holds_nothing_whatever_its_children_do(
    family: subprocess.Popen[str], path: str
) -> None:
    """As soon as it has gone, the next hook has the job: it waits for no child of the sampler's."""
    assert state.lock(path, 0.05) is None
    assert state.signed_pid(path) == family.pid
    family.kill()
    family.wait()
    held = state.lock(path)
    assert held is not None
    with held:
        pass


def test_a_lock_is_had_once_within_a_process_too(path: str) -> None:
    """A second attempt is refused, and does not take the first one's away from under it."""
    held = state.lock(path)
    assert held is not None
    with held:
        assert state.lock(path, 0.01) is None
        assert _another_gets(path) is False
    assert _another_gets(path) is True


def test_a_child_may_lock_what_its_parent_has_given_back(path: str) -> None:
    """What the parent held when it forked is not the child's, nor in its way."""
    held = state.lock(path)
    assert held is not None
    with held:
        assert _another_gets(path) is False
    again = state.lock(path)
    assert again is not None
    with again:
        assert state.lock(path) is None


def _another_gets(path: str) -> bool:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if state.lock(path) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("flushed", [False, True])
def test_a_sampler_ends_with_its_folders(node: Node, flushed: bool) -> None:
    """Whoever removes the spool gets rid of samplers too, also where a last flush came between."""
    node.prolog(7)
    pid, known = node.sampler("7.0"), node.state("7.0")
    wait_for(lambda: _removed(Path(node.spool.root)))
    if flushed:
        node.spool.prepare()
        Path(node.spool.state_file("7.0", "json")).write_text(json.dumps(known))
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    assert Path(node.spool.root).exists() is flushed


def _removed(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
