"""Checks of `doctor`: the hooks. One that slurmd cannot start drains the node."""

import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path

from slurm_ext.cli.doctor.finding import FAIL, WARN, Finding, judged, output
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.slurm_place import slurm_bin
from slurm_ext.install.node_python import ADVICE, OLDEST, version_of

HOOKS = ("Prolog", "Epilog", "TaskProlog")
_DRAINS = re.compile(r"(prolog|epilog) (error|failed)", re.IGNORECASE)  # as slurmctld words it


def hooks(settings: Settings, config: Mapping[str, str]) -> Iterator[Finding]:
    """Hooks that slurm.conf names, whether they can be started, nodes that one has drained."""
    for key in HOOKS:
        yield _hook(config, key)
    yield from _unusable(config)
    yield from _drained(settings)


def values(config: Mapping[str, str], key: str) -> list[str]:
    """A setting's scripts: patterns expanded; `Prolog[0]` and so on of later releases, too."""
    named = [v for k, v in config.items() if k == key or k.startswith(f"{key}[")]
    return [script for v in named if v != "(null)" for script in glob(v) or [v]]  # noqa: PTH207 - absolute patterns


def text_of(script: str) -> str:
    """A script's text; nothing where it is not on this machine."""
    try:
        return Path(script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # it may be on the nodes only


def _hook(config: Mapping[str, str], key: str) -> Finding:
    scripts = values(config, key)
    ours = any("dlqueue" in script + text_of(script) for script in scripts)
    state = ", ".join(scripts) or "(null)"
    return judged(key, ours, state, f"`dlqueue install hooks` joins ours to {key} (INSTALL.md, 3)")


def _unusable(config: Mapping[str, str]) -> Iterator[Finding]:
    """Scripts that are not programs; one that is absent is a fault only where slurmd runs."""
    is_node = runs_here("slurmd")
    for key in HOOKS:
        for script in values(config, key):
            reason = _fault(Path(script), is_node)
            if reason:
                advice = "slurmd drains the node that cannot run it: `dlqueue install hooks`"
                yield Finding(f"{key} runs", FAIL, f"{script}: {reason}", advice)


def _fault(script: Path, is_node: bool) -> str | None:
    try:
        mode = script.stat().st_mode
    except FileNotFoundError:
        return "is not there" if is_node else None
    except OSError:
        return None  # not for this user to see
    if not stat.S_ISREG(mode):
        return "is no file"
    return None if mode & 0o111 else "is not executable"


def _drained(settings: Settings) -> Iterator[Finding]:
    """Nodes that slurmctld took out because a prolog or an epilog failed there."""
    sinfo = shutil.which("sinfo", path=slurm_bin(settings) or None)
    conf = settings["paths.slurm_conf"]
    command = [sinfo or "sinfo", "--noheader", "--list-reasons", "--format=%N|%E"]
    listed = output(command, {"SLURM_CONF": conf} if conf else {}) if sinfo else None
    for line in (listed or "").splitlines():
        nodes, _, reason = line.partition("|")
        if _DRAINS.search(reason):
            advice = f"slurmd.log of {nodes} says why; then scontrol update State=RESUME"
            yield Finding("drained", FAIL, f"{nodes}: {reason.strip()}", advice)


def hooks_python(settings: Settings, *, needed: bool) -> Finding:
    """The interpreter that the launchers call: a fault where hooks are installed (`needed`)."""
    python = settings["node.python"]
    version = version_of(python)
    bad = FAIL if needed else WARN
    if version is None:
        return Finding("node.python", bad, f"{python} does not run", ADVICE)
    state = f"{python}, {version[0]}.{version[1]}"
    return judged("node.python", version >= OLDEST, state, ADVICE, bad)


def runs_here(name: str) -> bool:
    """True if a process of that name is on this machine."""
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().strip() == name:
                return True
        except OSError:
            continue  # it ended meanwhile
    return False
