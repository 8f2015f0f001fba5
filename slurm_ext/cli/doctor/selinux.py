"""Checks of `doctor`: SELinux labels; none on a machine without SELinux."""

import os
from collections.abc import Iterator
from pathlib import Path

from slurm_ext.cli.doctor.access import folder_of
from slurm_ext.cli.doctor.finding import OK, WARN, Finding
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.settings.document import Settings

NAME = "SELinux labels"


def labels(settings: Settings) -> Iterator[Finding]:
    """Check that files of `dlqueue install` have the labels of the site's SELinux policy."""
    from slurm_ext.install import selinux

    paths = [path for path in _written(settings) if path.exists()]
    if not selinux.enabled() or not paths:
        return
    wrong_labels = selinux.wrong(paths)
    if isinstance(wrong_labels, str):
        yield Finding(
            NAME,
            WARN,
            f"cannot be checked: {wrong_labels}",
            "as root: restorecon -nvR /etc/dlqueue",
        )
    elif wrong_labels:
        state = ", ".join(wrong_labels[:3])
        yield Finding(NAME, WARN, f"wrong: {state}", f"restorecon -R {' '.join(map(str, paths))}")
    else:
        yield Finding(NAME, OK, "as the policy has them")


def _written(settings: Settings) -> list[Path]:
    """Its folder, and the site's files that were joined."""
    from slurm_ext.install.backups import folder_of as kept_in
    from slurm_ext.install.backups import load
    from slurm_ext.install.site_files import InstallRoot

    etc = folder_of(settings)
    place = InstallRoot(Path("/"), etc, Path("/etc/slurm/slurm.conf"))
    if not os.access(kept_in(place), os.R_OK | os.X_OK):
        return [etc]
    try:
        files = load(place).files
    except DlqueueError:
        return [etc]  # said by another check
    return [etc, *(path for path in files if not path.is_relative_to(etc))]
