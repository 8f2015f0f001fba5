"""Adds two marked lines to a site's job_submit.lua, and takes them out again.

They wrap the site's own function: a job that the site refuses stays refused, and dlqueue sees only
jobs that the site accepts. Slurm's own example ends with a `return` of the chunk, after which
nothing may stand: the lines then come before it.
"""

import re

from slurm_ext.core.settings.render import lua_literal

_MARK = "-- dlqueue install"
_BARE = ", the line before had no end"
_OURS = re.compile(rf"^[^\n]*{_MARK}(?: 1({re.escape(_BARE)})?| 2)(?:\n|\Z)", re.MULTILINE)
_LOADS = re.compile(r'"(/[^"\n]*/dlqueue\.lua)"')
_RETURNS = re.compile(r"^\s*return\b(?!.*\bend\b)")
_NO_CODE = re.compile(r"^\s*(?:--.*)?$")


def loaded(text: str) -> str | None:
    """Path of the dlqueue.lua that the file loads already, by lines that are not ours."""
    lines = (line for line in text.split("\n") if not _NO_CODE.match(line))
    return next((match[1] for line in lines if (match := _LOADS.search(line))), None)


def joined(text: str, dlqueue_lua: str) -> str:
    """Add our two lines; `dlqueue_lua` is the path of that file."""
    lines = text.split("\n")
    code = [number for number, line in enumerate(lines) if not _NO_CODE.match(line)]
    if code and _RETURNS.match(lines[code[-1]]):
        lines[code[-1] : code[-1]] = _lines(dlqueue_lua, "")
        return "\n".join(lines)
    bare = text != "" and not text.endswith("\n")
    ours = _lines(dlqueue_lua, _BARE if bare else "")
    newline = "\n" if bare else ""
    return text + newline + "".join(f"{line}\n" for line in ours)


def without(text: str) -> str:
    """Remove our lines."""
    first, left = _OURS.search(text), _OURS.sub("", text)
    if first is None or not first[1]:
        return left
    return left[: first.start()].removesuffix("\n") + left[first.start() :]


def _lines(dlqueue_lua: str, bare: str) -> list[str]:
    return [
        f"local _, dlqueue = pcall(dofile, {lua_literal(dlqueue_lua)}) {_MARK} 1{bare}",
        f"pcall(function() slurm_job_submit = dlqueue.after(slurm_job_submit) end) {_MARK} 2",
    ]
