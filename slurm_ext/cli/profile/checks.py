"""Scripts and programs that a profile run refuses: nothing would keep such a run from saving."""

import re
import sys
from collections.abc import Sequence
from pathlib import PurePath

from slurm_ext.core.errors import InputError, UsageError
from slurm_ext.node.common.job import PROBE_SITE

_PYTHON = re.compile(r"python[0-9.]*")
_ISOLATED = r"-[bBdhiOPqsuvVx]*[EIS]"  # -c, -m, -W and -X take the rest of their word
# Comments, and lines that only print; sbatch's own options may name an image.
_IDLE = re.compile(
    r"^[ \t]*(?:echo|printf)\b[^;&|(`\n]*$|(?<!\S)#(?!SBATCH[ \t].*--container).*", re.MULTILINE
)
# Where dlqueue is installed: a user who names that folder has brought it into the image.
PREFIX = (
    sys.prefix if PROBE_SITE.startswith(f"{sys.prefix}/") else str(PurePath(PROBE_SITE).parents[2])
)
_CONTAINER = re.compile(
    r"(?<![\w.-])(?:(?:apptainer|singularity)[\"']?[ \t]+(?:-\S+[ \t]+)*(?:exec|run|shell)\b"
    r"|(?:(?:nvidia-)?docker|podman(?:-hpc)?|sarus)[\"']?[ \t]+(?:-\S+[ \t]+)*(?:run|exec)\b"
    r"|(?:enroot[ \t]+start|shifter|ch-run|chroot)[\"']?[ \t])|--container(?:-image|-name)?[= \t]"
)
_CONTAINED = (
    "runs a container, which does not see dlqueue: the training would save. Bring that folder in,"
    f" and PYTHONPATH (--bind {PREFIX})"
)
_REFUSED = {
    "replaces PYTHONPATH, which brings dlqueue in: write PYTHONPATH=...:$PYTHONPATH": re.compile(
        r"(?<![\w${])PYTHONPATH=(?!.*\$\{?PYTHONPATH)|\bunset[ \t][^\n;&|]*\bPYTHONPATH\b"
    ),
    "leaves the environment out, which brings dlqueue in: take that out": re.compile(
        rf"\bpython[0-9.]*[ \t]+(?:-\S+[ \t]+)*{_ISOLATED}|--cleanenv\b"
        r"|(?:--export|\bSLURM_EXPORT_ENV)=[\"']?(?i:NONE|NIL)\b"
    ),
    "submits a job, which would inherit the profile: take that line out": re.compile(
        r"(?<![^\s;&|('\"`/])sbatch[\"']?[ \t]+(?![\s>&|;]|2>)"
    ),
}


def check(argv: Sequence[str], script: str | None) -> None:
    """Refuse what would keep the probe out, or bring the profile into another job.

    Raises UsageError, InputError.
    """
    if script is not None:
        _check_script(argv[0], _IDLE.sub("", script))
        return
    if _PYTHON.fullmatch(PurePath(argv[0]).name):
        for word in argv[1:]:
            if not word.startswith("-"):
                return
            if re.match(_ISOLATED, word):
                raise UsageError(f"python {word} ignores PYTHONPATH, which brings dlqueue in")
    elif _is_contained(" ".join(argv)):
        raise UsageError(f"{argv[0]} {_CONTAINED}")


def _is_contained(said: str) -> re.Match[str] | None:
    return None if PREFIX in said else _CONTAINER.search(said)


def _check_script(name: str, script: str) -> None:
    found_by = {why: pattern.search(script) for why, pattern in _REFUSED.items()}
    for why, found in {**found_by, _CONTAINED: _is_contained(script)}.items():
        if found:
            raise InputError(name, why, line=script.count("\n", 0, found.start()) + 1)
