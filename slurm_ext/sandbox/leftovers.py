"""Parts of a sandbox outside its folder: memory, links and namespaces, control groups."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from slurm_ext.sandbox import network
from slurm_ext.sandbox.layout import SandboxLayout
from slurm_ext.sandbox.plan import SandboxPlan, cgroup_folders

MEMORY = Path("/dev/shm")  # noqa: S108 - memory is the point
_PREFIX = "dlqueue-"


def make_state(plan: SandboxPlan) -> None:
    """Make slurmctld's folder, in memory if wanted; jobs' scripts in it are nobody else's."""
    state = plan.layout.state
    if plan.spec.state_on_tmpfs:
        state.symlink_to(tempfile.mkdtemp(prefix=_PREFIX, dir=MEMORY))
    else:
        state.mkdir(mode=0o700)


def clean(plan: SandboxPlan, *, temporary: bool) -> None:
    """Remove what lies outside the folder, and a temporary folder itself.

    All of it follows from the plan, and from a link in the folder, into which nobody else writes.
    """
    network.undo(plan)
    _remove_memory(plan.layout)
    for path in cgroup_folders(plan):
        _remove_cgroup(path)
    plan.layout.control_socket.unlink(missing_ok=True)
    if temporary:
        shutil.rmtree(plan.layout.root, ignore_errors=True)


def _remove_memory(layout: SandboxLayout) -> None:
    with suppress(OSError):  # no link: the state is in the folder
        memory = layout.state.readlink()
        if memory.parent == MEMORY and memory.name.startswith(_PREFIX):
            shutil.rmtree(memory, ignore_errors=True)


def _remove_cgroup(folder: Path) -> None:
    for sub_folder in sorted(folder.rglob("*/"), key=lambda path: -len(path.parts)):
        with suppress(OSError):
            sub_folder.rmdir()
    with suppress(OSError):
        folder.rmdir()
