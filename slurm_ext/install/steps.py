"""Steps of an installation, as a table: each writes its files into a draft."""

import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import sample
from slurm_ext.core.settings.render import render_folder, render_lua_folder
from slurm_ext.install import submit_lua
from slurm_ext.install.draft import Draft
from slurm_ext.install.site_files import user_of
from slurm_ext.install.slurm_conf import ConfValue

_UNIT_TEXT = Path(__file__).with_name("dlqueue.service")
_WRITES = "ReadWritePaths=-/var/lib/dlqueue"
_SHIPPED = "/opt/dlqueue/bin/dlqueue"
_DROPPED = ("zz-dlqueue", "zz-dlqueue.sh", "99-dlqueue", "99-dlqueue.sh")
HOOKS = {"Prolog": "prolog", "Epilog": "epilog", "TaskProlog": "task_prolog"}  # by slurm.conf's key
_AT_ALLOCATION = {"alloc", "contain", "x11"}  # the last two imply the first (slurm.conf(5))
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class InstallStep:
    """One row: its name, a few words about it, and its function."""

    name: str
    what: str
    write: Callable[[Draft], None]


_DROP_INS = """\
Files here whose names end in .toml are read after ../dlqueue.toml, in the order of their names.
Of two values for one key the later file's counts. `dlqueue config` prints what is in force.
"""


def files(draft: Draft) -> None:
    """Write dlqueue.toml once, and render what nodes and slurmctld read instead of it."""
    etc = draft.place.etc
    draft.put_default(etc / "dlqueue.toml", _first_settings(draft))
    draft.put(etc / "dlqueue.d" / "README", _DROP_INS, "own")
    for name, text, mode in render_folder(draft.settings(), etc):
        draft.put(etc / name, text, "own", mode)


def _first_settings(draft: Draft) -> str:
    """Sample of dlqueue.toml, with the cluster's name and paths of slurm.conf."""
    text, conf = sample(), draft.place.slurm_conf
    named = draft.conf_value("ClusterName")
    if named is not None and _NAME.fullmatch(named[1].value):
        name = named[1].value.lower()  # as Slurm itself names it, whatever slurm.conf has
        text = text.replace('cluster = "cluster"', f'cluster = "{name}"', 1)
    if conf != Path("/etc/slurm/slurm.conf"):
        text = text.replace('slurm_conf = ""', f'slurm_conf = "{conf}"', 1)
    return text


def service(draft: Draft) -> None:
    """Write the advisor's unit, for SlurmUser, and make its missing folders."""
    settings = draft.settings()
    named = draft.conf_value("SlurmUser")
    user = (named[1].value if named else "root").partition("(")[0]
    account = user_of(user)
    unit = _UNIT_TEXT.read_text(encoding="utf-8")
    unit = unit.replace("User=slurm", f"User={user}")
    unit = unit.replace("Group=slurm", f"Group={account[2] if account else user}")
    draft.folders[settings.state_dir] = (0o755, user)
    if settings["node.transport"] == "folder":
        spool, shared = settings.state_dir / "spool", Path(settings["node.folder"])
        draft.folders[shared] = (0o2770, user)
        if shared != spool:
            draft.links[spool] = shared
    unit = unit.replace(_WRITES, f"ReadWritePaths={' '.join(map(_writable, draft.folders))}")
    draft.put_default(draft.place.unit, unit.replace(_SHIPPED, str(_program(draft))))


def _writable(folder: Path) -> str:
    """Folder for ReadWritePaths, one that may be missing (systemd.syntax(7) quotes like C)."""
    text = str(folder).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"-{text}"' if text != str(folder) or " " in text else f"-{text}"


def _program(draft: Draft) -> Path:
    """Path of this dlqueue program, as the site will see it."""
    program = Path(sys.prefix) / "bin" / "dlqueue"
    if program.exists() and program.is_relative_to(draft.place.root):
        return Path("/") / program.relative_to(draft.place.root)
    return Path(_SHIPPED)


def hooks(draft: Draft) -> None:
    """Add prolog, epilog and task prolog, beside the site's own."""
    for key, hook in HOOKS.items():
        _hook(draft, key, hook)
    current = draft.conf_value("PrologFlags")
    flags = current[1].value if current else ""
    if not _AT_ALLOCATION & set(flags.lower().split(",")):
        draft.set_conf("PrologFlags", f"{flags},Alloc" if flags else "Alloc", "hooks")


def _hook(draft: Draft, key: str, hook: str) -> None:
    """Add our hook alone, as a file in the site's folder, or in a launcher before the site's."""
    ours = draft.place.etc / "hooks" / hook
    current = draft.conf_value(key)
    if current is None:
        draft.set_conf(key, str(ours), "hooks")
        return
    value = current[1].value
    launcher = ours.with_name(f"site_{hook}")
    if value == str(launcher):
        _keep(draft, hook, *current)
        return
    if value == str(ours) or _calls(_script(draft, value), ours):
        return
    if not value.startswith("/"):
        raise InputError(
            str(current[0]), f"{key}={value} is no absolute path", line=current[1].line + 1
        )
    if key != "TaskProlog" and re.search(r"[*?\[]", value):
        _drop_in(draft, key, Path(value), ours)
        return
    draft.put(launcher, _launcher(hook, ours, value), "own", 0o755)
    draft.set_conf(key, str(launcher), "hooks")


def _keep(draft: Draft, hook: str, conf: Path, named: ConfValue) -> None:
    """Keep a launcher whose line in slurm.conf lost our marks. Raises InputError if it is lost.

    A new one would call itself: slurm.conf does not name the site's own script any more.
    """
    ours, text = draft.place.etc / "hooks" / hook, _script(draft, named.value)
    if text is None or not _calls(text, ours) or text == _launcher(hook, ours, named.value):
        why = f"{named.value} is dlqueue's launcher and leads to no script of the site"
        how = f"name the site's own script again, or {ours} if there is none"
        raise InputError(str(conf), f"{why}: {how}", line=named.line + 1)
    draft.put(Path(named.value), text, "own", 0o755)


def _script(draft: Draft, value: str) -> str | None:
    """Text of the site's own script, if it is a file here."""
    path = Path(value)
    return draft.current_text(path) if path.is_absolute() else None


def _calls(text: str | None, ours: Path) -> bool:
    lines = (line.partition("#")[0] for line in (text or "").split("\n"))
    return any(str(ours) in line for line in lines)


def _launcher(hook: str, ours: Path, site: str) -> str:
    return (
        f"#!/bin/sh\n# dlqueue's {hook}, which always ends well and in time; then the site's own in"
        " this process:\n# its exit status, its signals and its output are what Slurm sees.\n"
        f'{shlex.quote(str(ours))}\nexec {shlex.quote(site)} "$@"\n'
    )


def _drop_in(draft: Draft, key: str, pattern: Path, ours: Path) -> None:
    """Add a file that the pattern matches. Slurm runs matches from z to a: ours comes first."""
    names = [name for name in _DROPPED if fnmatchcase(name, pattern.name)]
    if not names or re.search(r"[*?\[]", str(pattern.parent)):
        why = f"{key}={pattern} matches none of dlqueue's file names: call {ours} in a script"
        raise InputError(str(draft.place.slurm_conf), why)
    call = shlex.quote(str(ours))
    says = "#!/bin/sh\n# dlqueue's; it always ends well and in time.\n"
    text = f"{says}[ -x {call} ] && {call}\nexit 0\n"
    draft.put(pattern.with_name(names[0]), text, "own", 0o755)


def submit(draft: Draft) -> None:
    """Write or extend job_submit.lua beside slurm.conf, and add the plugin."""
    lua = draft.place.etc / "lua"
    shim = draft.place.slurm_conf.with_name("job_submit.lua")
    text = draft.text(shim, "lua")
    if text is None:
        draft.put(shim, render_lua_folder(draft.settings(), lua)["job_submit.lua"], "lua")
    elif (loaded := submit_lua.loaded(text)) is None:
        draft.put(shim, submit_lua.joined(text, str(lua / "dlqueue.lua")), "lua")
    elif loaded != str(lua / "dlqueue.lua"):
        raise InputError(str(shim), f"loads {loaded}: remove those lines, or keep to that folder")
    current = draft.conf_value("JobSubmitPlugins")
    plugins = current[1].value.removeprefix("job_submit/") if current else ""
    if "lua" not in re.split(r",(?:job_submit/)?", plugins):
        draft.set_conf(
            "JobSubmitPlugins", f"{current[1].value},lua" if current else "lua", "submit"
        )


STEPS = (
    InstallStep("files", "settings, and what nodes and slurmctld read of them", files),
    InstallStep("service", "the advisor's unit and folders", service),
    InstallStep("hooks", "prolog, task prolog and epilog in slurm.conf", hooks),
    InstallStep("submit", "job_submit.lua and the plugin in slurm.conf", submit),
)
NAMES = tuple(step.name for step in STEPS)
