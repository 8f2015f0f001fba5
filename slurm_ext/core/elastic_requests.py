"""Requests of users to let a job's number of GPUs change: DLQUEUE_ELASTIC=MIN-MAX.

It is a word of the job's comment, or else a variable of the submission's environment. Slurm does
not show a waiting job's environment, so the advisor notes it in the journal at the submission, and
the history writer, which knows the job's id, writes <state_dir>/elastic.json for the elastic loop:
{"v": 1, "jobs": {"1042": "1-8"}}.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.files import replace_file

VARIABLE = "DLQUEUE_ELASTIC"
NAME, VERSION = "elastic.json", 1
MAX_CHARS = 64  # kept of a user's text
BAD = f"{VARIABLE} is not MIN-MAX (two numbers of GPUs, such as 1-8)"
_BOUNDS = re.compile(r"([1-9][0-9]{0,4})-([1-9][0-9]{0,4})", re.ASCII)
_NOT = frozenset({"", "0", "no", "false", "off"})


def requested_bounds(words: Sequence[str], variable: str | None) -> str | None:
    """Text of the request, valid or not; None without one. The comment goes before `variable`."""
    mark = f"{VARIABLE}="
    requests = [word.removeprefix(mark) for word in words if word.startswith(mark)]
    if requests:
        return " ".join(requests)  # of two, neither is valid
    text = (variable or "").strip()
    return None if text.lower() in _NOT else text[:MAX_CHARS]


def parse_bounds(text: str | None) -> tuple[int, int] | None:
    """Fewest and most GPUs; None without a request, or where it is not valid."""
    match = _BOUNDS.fullmatch(text or "")
    if match is None or int(match[1]) > int(match[2]):
        return None
    return int(match[1]), int(match[2])


def fault_in(words: Sequence[str], variable: str | None) -> str | None:
    """Message about a request that is not valid; None if it is, or if there is none."""
    text = requested_bounds(words, variable)
    return None if text is None or parse_bounds(text) is not None else BAD


def write(folder: Path, jobs: Mapping[int, str]) -> None:
    """Replace elastic.json. Raises OSError."""
    body = {"v": VERSION, "jobs": {str(job): text for job, text in sorted(jobs.items())}}
    replace_file(folder / NAME, json.dumps(body).encode(), durable=False)


def read(folder: Path) -> dict[int, str]:
    """Request of each job id; empty where the file was never written. Raises InputError."""
    path = folder / NAME
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if body["v"] != VERSION:
            raise ValueError(f"version {body['v']!r}, expected {VERSION}")
        return {int(job): str(text) for job, text in body["jobs"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(str(path), f"is not what the advisor writes: {error!r}") from None
