"""Checks of `doctor`: rights, clocks, counters, and the files of `dlqueue install`."""

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding, judged
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.settings.document import DEFAULT_PATH, Settings

NEAR_S, MUNGE_S = 5.0, 300.0  # munge refuses a credential that is older, or of the future
_AS_OF = "Configuration data as of "
_READ = (
    "dlqueue.toml",
    "dlqueue.d",
    "dlqueue.d/*",
    "node.json",
    "hooks",
    "hooks/*",
    "lua",
    "lua/*",
    "install",
)
_GPU = Path("/dev/nvidiactl")


def folder_of(settings: Settings) -> Path:
    """Folder of dlqueue.toml."""
    path = DEFAULT_PATH if settings.source == "defaults" else Path(settings.source)
    return path.absolute().parent


def permissions(settings: Settings) -> Iterator[Finding]:
    """Root and slurmctld run what lies there: nobody else may write it."""
    folder = folder_of(settings)
    files = [folder, *(path for name in _READ for path in sorted(folder.glob(name)))]
    if not folder.is_dir():
        yield Finding("permissions", OK, f"{folder} is not there: nothing is installed here")
        return
    open_to_others = [str(path) for path in files if path.exists() and not _safe(path.stat())]
    state = ", ".join(open_to_others[:3]) or str(folder)
    advice = "others can change what root runs: chown root, chmod go-w"
    yield judged("permissions", not open_to_others, state, advice, FAIL)


def _safe(info: os.stat_result) -> bool:
    by_group = info.st_mode & stat.S_IWGRP and info.st_gid not in (0, os.getegid())
    ours = info.st_uid in (0, os.geteuid())
    return ours and not by_group and not info.st_mode & stat.S_IWOTH


def clock(config: Mapping[str, str], now_s: float) -> Iterator[Finding]:
    """Check this clock against slurmctld's, which has whole seconds."""
    text = next((key[len(_AS_OF) :] for key in config if key.startswith(_AS_OF)), None)
    try:
        then_s = time.mktime(time.strptime(text or "", "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return
    off_s = abs(now_s - then_s)
    state = f"{off_s:.0f} s from slurmctld's"
    advice = "run an NTP service on both: munge refuses credentials from 300 s on"
    bad = FAIL if off_s >= MUNGE_S else WARN
    yield judged("clock", off_s <= NEAR_S, state, advice, bad)


def counters(sources: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Of the sources that a node counts by, those that a site can do something about."""
    by_name = {source["name"]: source for source in sources}
    perf, nvml = by_name.get("perf events"), by_name.get("NVML")
    if perf is not None:
        advice = "hardware counters stay empty; `dlqueue doctor` says why below"
        yield judged("perf access", bool(perf["counts"]), perf["counts"] or perf["why"], advice)
    if nvml is None or not _GPU.exists():
        yield Finding("NVML", OK, "no NVIDIA GPU here")
        return
    advice = "GPUs are not counted: pip install nvidia-ml-py for node.python"
    yield judged("NVML", bool(nvml["counts"]), nvml["counts"] or nvml["why"], advice)


def installed(settings: Settings) -> Iterator[Finding]:
    """Check that the files are those that `dlqueue install` would write today."""
    from slurm_ext.install.backups import folder_of as kept_in
    from slurm_ext.install.backups import load
    from slurm_ext.install.conf_files import foreign_steps
    from slurm_ext.install.plan import make_plan
    from slurm_ext.install.site_files import InstallRoot

    etc = folder_of(settings)
    place = InstallRoot(Path("/"), etc, Path("/etc/slurm/slurm.conf"))
    if not os.access(kept_in(place), os.R_OK | os.X_OK):
        return  # not by `dlqueue install`, or not for this user to see
    try:
        kept = load(place)
        place = InstallRoot(
            Path("/"), etc, kept.slurm_conf or place.slurm_conf, kept.units or place.units
        )
        foreign = foreign_steps(place, kept.steps)
        plan = make_plan(kept.steps, place, place.read, kept, foreign=foreign)
        stale = [str(change.path) for change in plan.real]
    except DlqueueError as error:
        yield Finding("installed", WARN, str(error), "see the message; then `dlqueue install`")
        return
    state = f"out of date: {', '.join(stale[:3])}" if stale else ", ".join(sorted(kept.steps))
    yield judged("installed", not stale, state, "`dlqueue install --dry-run` shows it")
