"""Checks of `doctor`: the submit path, where a missing file is silent."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding, judged, present
from slurm_ext.core.errors import InputError, MissingError
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.render import render_lua_folder
from slurm_ext.install.submit_check import (
    check_syntax,
    find_lua,
    linked_version,
    lua_plugin,
    plugin_folders,
)

_LUA_FOLDERS = (
    "usr/lib/*/lua/5.*",
    "usr/lib/lua/5.*",
    "usr/lib64/lua/5.*",
    "usr/local/lib/lua/5.*",
)
_OURS = re.compile(r'"(/[^"\n]*/dlqueue\.lua)"')
_RENDER = "`dlqueue config --write FOLDER` writes it"


def lua_libraries(plugin_dir: str, *, needed: bool = False) -> Iterator[Finding]:
    """Slurm's plugin and luasocket; only a controller that loads job_submit.lua needs them."""
    plugin = _plugin(plugin_dir)
    version = linked_version(plugin)
    folders = [f"{folder[:-1]}{version[2:]}" if version else folder for folder in _LUA_FOLDERS]
    advice = "on the controller: apt-get install {}"
    bad = FAIL if needed else WARN
    yield present("job_submit/lua", plugin, advice.format("slurm-wlm-basic-plugins"), bad)
    yield present("luasocket", _first(folders, "socket/unix.so"), advice.format("lua-socket"), bad)


def _plugin(plugin_dir: str) -> Path | None:
    """Find job_submit_lua.so where slurmctld loads it, or in a usual place."""
    return lua_plugin(plugin_folders(*plugin_dir.split(":")))


def lua_files(settings: Settings, slurm_conf: Path, plugin_dir: str = "") -> Iterator[Finding]:
    """From job_submit.lua beside slurm.conf to every file that it loads."""
    shim = slurm_conf.with_name("job_submit.lua")
    try:
        text = shim.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        advice = "slurmctld will not start without it (INSTALL.md, 4)"
        yield Finding("job_submit.lua", FAIL, f"{shim}: {error.strerror}", advice)
        return
    ours = _OURS.search(text)
    advice = "it does not load dlqueue.lua: `dlqueue install submit` joins it (INSTALL.md, 4)"
    yield judged("job_submit.lua", ours is not None, shim, advice)
    yield from _compiles(shim, plugin_dir)
    if ours is not None:
        yield _parts(settings, Path(ours[1]).parent)


def _compiles(shim: Path, plugin_dir: str) -> Iterator[Finding]:
    """Slurmctld keeps the last version that it could read, and does not start with none."""
    try:
        check_syntax(find_lua(linked_version(_plugin(plugin_dir))), shim, shim)
    except MissingError:
        return  # no interpreter of that version: installing asks for one
    except InputError as error:
        advice = "slurmctld will not start with it: mend it, or `dlqueue install submit`"
        yield Finding("job_submit.lua compiles", FAIL, str(error), advice)


def _parts(settings: Settings, folder: Path) -> Finding:
    """Check that the folder holds every file, and the settings of today."""
    texts = render_lua_folder(settings, folder)
    needed = {name: text for name, text in texts.items() if name != "job_submit.lua"}
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        return Finding("dlqueue.lua", FAIL, f"{folder} lacks {', '.join(missing)}", _RENDER)
    stale = [name for name, text in needed.items() if (folder / name).read_text() != text]
    if stale:
        advice = f"{_RENDER} again; then `touch` job_submit.lua"
        return Finding("dlqueue.lua", WARN, f"{folder}: out of date: {', '.join(stale)}", advice)
    return Finding("dlqueue.lua", OK, str(folder))


def _first(folders: "list[str] | tuple[str, ...]", name: str) -> Path | None:
    """A look into known folders: to search all of /usr/lib takes seconds."""
    return next(chain.from_iterable(Path("/").glob(f"{folder}/{name}") for folder in folders), None)
