"""Checks of `doctor` on a compute node: needs of the hooks, records that wait for delivery."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding, judged
from slurm_ext.cli.doctor.hooks import hooks_python
from slurm_ext.cli.doctor.munge import munge_of_the_node
from slurm_ext.cli.doctor.room import room
from slurm_ext.core.settings.document import DEFAULT_PATH, Settings
from slurm_ext.core.settings.render import render_node_config

PATIENCE_S = 60.0  # a record younger than this is on its way


def node(settings: Settings) -> Iterator[Finding]:
    """All of it; on a machine that is no node it does no harm to look."""
    rendered = _node_config(settings)
    yield hooks_python(settings, needed=rendered.exists())
    yield _rendered(settings, rendered)
    yield _cgroup()
    yield from _control(settings)
    pressure = Path("/proc/pressure/cpu").exists()
    state = "/proc/pressure" if pressure else "absent"
    yield judged("pressure", pressure, state, "boot with psi=1 to see stalls")
    yield from _spool(Path(settings["node.spool_dir"]))
    if rendered.exists():
        yield from room("spool room", Path(settings["node.spool_dir"]))
    if settings["node.transport"] == "stream":
        yield munge_of_the_node(settings)


def _node_config(settings: Settings) -> Path:
    """node.json stands beside dlqueue.toml; the hooks read nothing else."""
    source = DEFAULT_PATH if settings.source == "defaults" else Path(settings.source)
    return source.with_name("node.json")


def _rendered(settings: Settings, path: Path) -> Finding:
    if not path.exists():
        return Finding("node.json", OK, f"{path} is not there: nothing is measured here")
    current = path.read_text(encoding="utf-8", errors="replace") == render_node_config(settings)
    state = path if current else f"{path} is not what dlqueue.toml says"
    return judged(
        "node.json", current, state, "`dlqueue config --write FOLDER`, then on every node"
    )


def _cgroup() -> Finding:
    if not Path("/sys/fs/cgroup").is_dir():
        return Finding("cgroup", WARN, "none", "counters come from /proc instead")
    second = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    return Finding("cgroup", OK, "v2" if second else "v1")


def _control(settings: Settings) -> Iterator[Finding]:
    """By which means `dlqueue control` could move CPUs here; silent where it is off."""
    if settings["control.mode"] == "off":
        return
    from slurm_ext.control.allocator.node import node_mechanisms

    mechanisms = node_mechanisms()
    yield Finding("control", OK, ", ".join(mechanisms))
    if settings["control.allocator"] == "lend":
        yield _lending(mechanisms)
        return
    enough = settings["control.grain_cores"] == 1 or "quota" in mechanisms
    advice = "no CPU quotas here: set control.grain_cores = 1.0"
    yield judged("control.grain_cores", enough, settings["control.grain_cores"], advice, FAIL)


def _lending(mechanisms: Sequence[str]) -> Finding:
    """Jobs lend the cores that are theirs alone: Slurm has to hold them to these."""
    by_cpuset = "cpuset" in mechanisms
    state = "cores of each job" if by_cpuset else "no cpuset"
    return judged("control.allocator", by_cpuset, state, "set ConstrainCores=yes in cgroup.conf")


def _spool(folder: Path) -> Iterator[Finding]:
    """Root's, so that nobody plants records, and without old ones that wait."""
    try:
        info = folder.stat()
    except FileNotFoundError:
        yield Finding("spool_dir", OK, f"{folder} is not there: the first prolog makes it")
        return
    safe = info.st_uid in (0, os.geteuid()) and not info.st_mode & 0o022
    state = f"{folder}, uid {info.st_uid}, mode {info.st_mode & 0o7777:o}"
    advice = "users can meddle with records: chown root, chmod 711"
    yield judged("spool_dir", safe, state, advice, FAIL)
    try:
        yield _waiting(folder / "out", folder / "hooks.log")
    except PermissionError:
        yield Finding("undelivered", OK, "only root can see")


def _waiting(out: Path, log: Path) -> Finding:
    born = [path.stat().st_mtime for path in out.glob("*.json")] if os.access(out, os.R_OK) else []
    late = [time_s for time_s in born if time.time() - time_s > PATIENCE_S]
    if not late:
        return Finding("undelivered", OK, f"{len(born)} on their way" if born else "none")
    minutes = (time.time() - min(late)) / 60
    state = f"{len(late)} records, the oldest for {minutes:.0f} min"
    return Finding("undelivered", WARN, state, f"{log} says why; nothing is lost meanwhile")
