"""SELinux: a file that was written anew has its folder's label, which is often not its own.

`restorecon` gives each what the site's policy says (restorecon(8)). Nothing here fails an
installation: what could not be labelled is said.
"""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from slurm_ext.install.plan import InstallPlan
from slurm_ext.install.site_files import InstallRoot

MOUNT = Path("/sys/fs/selinux")  # there, with its files, where the kernel enforces or permits
TIMEOUT_S = 60
_LIVE = Path("/")  # elsewhere, files are an image's
_ADMIN_FOLDERS = "/usr/sbin:/sbin"


def enabled() -> bool:
    """Whether this machine has SELinux, enforcing or permissive."""
    return (MOUNT / "enforce").exists()


def relabelled(plan: InstallPlan, place: InstallRoot) -> Iterator[str]:
    """Label what a plan wrote; warnings. An image is labelled by the machine that it becomes."""
    if place.root != _LIVE or not enabled():
        return
    written = [change.path for change in plan.real if change.then is not None]
    paths = [place.real(path) for path in (place.etc, *written, *plan.folders)]
    why = restorecon([path for path in paths if path.exists()])
    if why is not None:
        yield f"SELinux labels are not restored: {why}; `dlqueue doctor` names the files"


def wrong(paths: Sequence[Path]) -> list[str] | str:
    """Files whose label is not the policy's; a text: why that cannot be told."""
    found = _run(["-n", "-v", "-R"], paths)
    if isinstance(found, str):
        return found
    # "Would relabel FILE from A to B"
    lines = [line for line in found.stdout.splitlines() if line.startswith("Would relabel ")]
    return [line.removeprefix("Would relabel ").rpartition(" from ")[0] for line in lines]


def restorecon(paths: Sequence[Path]) -> str | None:
    """Give them, and what lies below, the labels of the policy; why not, where it cannot be."""
    found = _run(["-R"], paths)
    return found if isinstance(found, str) else None


def _run(options: Sequence[str], paths: Sequence[Path]) -> "subprocess.CompletedProcess[str] | str":
    program = shutil.which("restorecon") or shutil.which("restorecon", path=_ADMIN_FOLDERS)
    if program is None:
        return "there is no restorecon here (policycoreutils)"
    if not paths:
        return subprocess.CompletedProcess([], 0, "", "")
    try:
        done = subprocess.run(
            [program, *options, "--", *map(str, paths)],
            capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        return f"restorecon: {said[0] if said else f'status {done.returncode}'}"
    return done
