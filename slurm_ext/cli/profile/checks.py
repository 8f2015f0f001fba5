"""Scripts and programs that a profile run refuses: nothing would keep such a run from saving."""

import re
from collections.abc import Sequence
from pathlib import PurePath

from slurm_ext.core.errors import InputError, UsageError

_PYTHON = re.compile(r"python[0-9.]*")
_ISOLATED = r"-[bBdhiOPqsuvVx]*[EIS]"  # -c, -m, -W and -X take the rest of their word
# Comments, and lines that only print.
_IDLE = re.compile(r"^[ \t]*(?:echo|printf)\b[^;&|(`\n]*$|(?<!\S)#.*", re.MULTILINE)
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
    elif _PYTHON.fullmatch(PurePath(argv[0]).name):
        for word in argv[1:]:
            if not word.startswith("-"):
                return
            if re.match(_ISOLATED, word):
                raise UsageError(f"python {word} ignores PYTHONPATH, which brings dlqueue in")


def _check_script(name: str, script: str) -> None:
    for why, pattern in _REFUSED.items():
        found = pattern.search(script)
        if found:
            raise InputError(name, why, line=script.count("\n", 0, found.start()) + 1)
