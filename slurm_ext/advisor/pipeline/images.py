"""Scripts that run a program in an image of Apptainer: its PYTHONPATH holds where there is none."""

import re

_NAMES = ("apptainer", "singularity")
_RUNS = rf"^[^#\n]*(?<![\w.-])(?:{'|'.join(_NAMES)})[\"']?[ \t]+(?:-\S+[ \t]+)*(?:exec|run|shell)\b"


def runs_an_image(script: str | None) -> bool:
    """True if a command of the script does; one that a program starts is not seen."""
    if script is None or not any(name in script for name in _NAMES):
        return False
    return re.search(_RUNS, script, re.MULTILINE) is not None
