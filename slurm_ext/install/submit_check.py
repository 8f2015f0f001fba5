"""Tests a job_submit.lua before slurmctld reads it: its syntax, and made-up submissions.

Each submission must end as without dlqueue: same return code, same writes, same messages to the
user; also if dlqueue fails. The Lua is the one that Slurm's plugin is linked with.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from slurm_ext.core.errors import InputError, MissingError
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.render import lua_literal, render_lua_folder

MOCK = Path(__file__).with_name("mock.lua")
TIMEOUT_S = 20
PLUGIN_FOLDERS = (
    "/usr/lib/*/slurm*",
    "/usr/lib*/slurm*",
    "/usr/local/lib*/slurm*",
    "/opt/slurm/lib*/slurm*",
)
VERSIONS = ("5.1", "5.3", "5.4", "5.2")  # Debian's Slurm, then SchedMD's packages
_LINKED = re.compile(rb"liblua-?(5\.[1-4])\.so")
_PLAIN = "function slurm_job_submit() return slurm.SUCCESS end\n" * 2


@dataclass(frozen=True, slots=True)
class Lua:
    """An interpreter and its compiler (None: the interpreter checks the syntax)."""

    version: str
    lua: str
    luac: str | None


def plugin_folders(*named: str) -> tuple[str, ...]:
    """Return patterns of folders of Slurm's plugins, those in `named` before the usual ones."""
    return tuple(dict.fromkeys(filter(None, (*named, *PLUGIN_FOLDERS))))


def lua_plugin(folders: Iterable[str], root: Path = Path("/")) -> Path | None:
    """Find Slurm's job_submit_lua.so: to search all of /usr/lib would take seconds."""
    patterns = (f"{folder}/job_submit_lua.so".lstrip("/") for folder in folders)
    return next((path for pattern in patterns for path in root.glob(pattern)), None)


def linked_version(plugin: Path | None) -> str | None:
    """Version of Lua of this job_submit_lua.so, such as 5.1; None if it names none."""
    match = _LINKED.search(plugin.read_bytes()) if plugin else None
    return match[1].decode() if match else None


def find_lua(version: str | None) -> Lua:
    """Find an interpreter of that version, or of any if it is None. Raises MissingError."""
    for number in [version] if version else VERSIONS:
        names = (number, f"-{number}", number.replace(".", ""), "")
        for name in names:
            lua = shutil.which(f"lua{name}")
            if lua and _version_of(lua) == number:
                return Lua(number, lua, shutil.which(f"luac{name}"))
    wanted = version or VERSIONS[0]
    what = f"there is no Lua {wanted} to try job_submit.lua with before slurmctld reads it"
    raise MissingError(what, f"install its interpreter (Debian: apt-get install lua{wanted})")


def _version_of(lua: str) -> str:
    done = subprocess.run([lua, "-v"], capture_output=True, text=True, timeout=TIMEOUT_S)  # noqa: PLW1510 - what it prints decides
    match = re.search(r"Lua (\d\.\d)", done.stdout + done.stderr)
    return match[1] if match else ""


def check(
    lua: Lua, shim: Path, before: str | None, after: str, settings: Settings, lua_folder: Path
) -> Iterator[str]:
    """Test the new text of `shim` and yield warnings; `before` is None if there was no file.

    `lua_folder` is where dlqueue.lua will be. Raises InputError if the new text must not be used.
    """
    with TemporaryDirectory(prefix="dlqueue-") as name:
        folder = Path(name)
        _stage(settings, folder)
        here = after.replace(
            lua_literal(str(lua_folder / "dlqueue.lua")), lua_literal(f"{folder}/dlqueue.lua")
        )
        files = {"before.lua": _shim(before), "after.lua": here}
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8", errors="surrogateescape")
        check_syntax(lua, folder / "after.lua", shim)
        yield from _compared(lua, folder, shim)


def _shim(before: str | None) -> str:
    return _PLAIN.replace("submit", "modify", 1) if before is None else before


def _stage(settings: Settings, folder: Path) -> None:
    """Write our Lua as it will be, but with the trial's own kill file and socket."""
    own = {"paths.kill_file": f"{folder}/off", "paths.socket": f"{folder}/none"}
    tried = replace(settings, values={**settings.values, **own})
    for name, text in render_lua_folder(tried, folder).items():
        (folder / name).write_text(text)


def check_syntax(lua: Lua, file: Path, shim: Path) -> None:
    """Raise InputError, about `shim`, if the text of `file` is no Lua of that version."""
    load = f"assert(loadfile({lua_literal(str(file))}))"
    command = [lua.luac, "-p", str(file)] if lua.luac else [lua.lua, "-e", load]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        lines = done.stderr.strip().replace(str(file), str(shim)).splitlines()
        raise InputError(str(shim), f"Lua {lua.version} refuses it: {lines[0] if lines else '?'}")


def _compared(lua: Lua, folder: Path, shim: Path) -> Iterator[str]:
    """Raise InputError where results differ; yield a warning where they cannot be compared."""
    before = _submissions(lua, folder, "before.lua", shim)
    after = _submissions(lua, folder, "after.lua", shim)
    broken = _submissions(lua, folder, "after.lua", shim, "broken")
    for job, (cpus, became) in after.items():
        for tried, what in ((after, "with dlqueue"), (broken, "with a fault in dlqueue")):
            if tried[job][1] != before[job][1]:
                why = f"a made-up submission ({job}) ends otherwise {what}"
                raise InputError(str(shim), f"{why}: {tried[job][1]}, not {before[job][1]}")
        if "answer=error" in became:
            yield f"{shim}: a made-up submission ({job}) fails in it, with or without dlqueue"
        elif cpus == 0 and "answer=0" in became and job != "srun":
            raise InputError(str(shim), f"dlqueue is not asked about a submission ({job})")


def _submissions(
    lua: Lua, folder: Path, file: str, shim: Path, *words: str
) -> Mapping[str, tuple[int, str]]:
    """Return made-up job → number of questions to dlqueue, and its result."""
    command = [lua.lua, str(MOCK), str(folder / file), f"{folder}/off", *words]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            cwd="/",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(str(shim), f"a made-up submission takes over {TIMEOUT_S} s") from None
    results = re.findall(r"^(\w+) asked=(\d+) (answer=.*)$", done.stdout, re.MULTILINE)
    if done.returncode or not results:
        output = (done.stdout + done.stderr).strip().replace(f"{folder}/{file}", str(shim))
        raise InputError(str(shim), f"Lua {lua.version} cannot run it: {output[-300:]}")
    return {job: (int(cpus), became) for job, cpus, became in results}
