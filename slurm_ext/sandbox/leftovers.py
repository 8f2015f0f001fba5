"""Parts of a sandbox outside its folder: memory, links and namespaces, control groups."""

import tempfile
import time
from contextlib import suppress
from pathlib import Path

from slurm_ext.node.common.removal import remove_tree
from slurm_ext.sandbox import network
from slurm_ext.sandbox.layout import SandboxLayout
from slurm_ext.sandbox.plan import SandboxPlan, cgroup_folders

MEMORY = Path("/dev/shm")  # noqa: S108 - memory is the point
_PREFIX = "dlqueue-"
_REMOVE_S = 120.0  # hundreds of nodes leave many files; a job may have made more


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
        remove_folder(plan.layout.root)


def remove_folder(folder: Path) -> None:
    """Remove a folder, as far as possible: whatever jobs made in it, however deep."""
    with suppress(OSError):
        remove_tree(folder.name, str(folder.parent), time.monotonic() + _REMOVE_S)


def _remove_memory(layout: SandboxLayout) -> None:
    with suppress(OSError):  # no link: the state is in the folder
        memory = layout.state.readlink()
        if memory.parent == MEMORY and memory.name.startswith(_PREFIX):
            remove_folder(memory)


def _remove_cgroup(folder: Path) -> None:
    for sub_folder in sorted(folder.rglob("*/"), key=lambda path: -len(path.parts)):
        with suppress(OSError):
            sub_folder.rmdir()
    with suppress(OSError):
        folder.rmdir()
