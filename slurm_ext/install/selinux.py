"""SELinux labels of written files: a new file has its folder's label, which may be wrong for it.

`restorecon` sets the labels of the site's policy (restorecon(8)). An error here is a warning and
never fails an installation.
"""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from slurm_ext.install.plan import InstallPlan
from slurm_ext.install.site_files import InstallRoot

MOUNT = Path("/sys/fs/selinux")  # has files if the kernel enforces or permits
TIMEOUT_S = 60
_LIVE = Path("/")  # any other root is an image
_ADMIN_FOLDERS = "/usr/sbin:/sbin"


def enabled() -> bool:
    """True if this machine has SELinux, enforcing or permissive."""
    return (MOUNT / "enforce").exists()


def relabelled(plan: InstallPlan, place: InstallRoot) -> Iterator[str]:
    """Label the files that a plan wrote; yield warnings. Images are labelled when they boot."""
    if place.root != _LIVE or not enabled():
        return
    written = [change.path for change in plan.real if change.then is not None]
    paths = [place.real(path) for path in (place.etc, *written, *plan.folders)]
    why = restorecon([path for path in paths if path.exists()])
    if why is not None:
        yield f"SELinux labels are not restored: {why}; `dlqueue doctor` names the files"


def wrong(paths: Sequence[Path]) -> list[str] | str:
    """Files whose label is not the policy's, or as a text the reason why it is not known."""
    done = _run(["-n", "-v", "-R"], paths)
    if isinstance(done, str):
        return done
    # "Would relabel FILE from A to B"
    lines = [line for line in done.stdout.splitlines() if line.startswith("Would relabel ")]
    return [line.removeprefix("Would relabel ").rpartition(" from ")[0] for line in lines]


def restorecon(paths: Sequence[Path]) -> str | None:
    """Set the policy's labels on paths and all below them. Returns the reason of a failure."""
    done = _run(["-R"], paths)
    return done if isinstance(done, str) else None


def _run(options: Sequence[str], paths: Sequence[Path]) -> "subprocess.CompletedProcess[str] | str":
    program = shutil.which("restorecon") or shutil.which("restorecon", path=_ADMIN_FOLDERS)
    if program is None:
        return "there is no restorecon here (policycoreutils)"
    if not paths:
        return subprocess.CompletedProcess([], 0, "", "")
    try:
        done = subprocess.run(
            [program, *options, "--", *map(str, paths)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        return f"restorecon: {lines[0] if lines else f'status {done.returncode}'}"
    return done
