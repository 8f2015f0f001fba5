"""How a job's owner lets its size change, and whose environment said so.

`DLQUEUE_ELASTIC=MIN-MAX` (GPUs) is a word of the job's comment, else a variable of the environment
that sbatch hands over. Slurm tells nobody a waiting job's environment: the advisor, who sees it at
the submission, notes it in the ledger, and the keeper, who knows which job that became, writes
<state_dir>/elastic.json for the elastic loop: {"v": 1, "jobs": {"1042": "1-8"}}.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.files import replace_file

VARIABLE = "DLQUEUE_ELASTIC"
NAME, VERSION = "elastic.json", 1
MAX_CHARS = 64  # of what is kept of a user's word
BAD = f"{VARIABLE} is not MIN-MAX (two numbers of GPUs, such as 1-8)"
_BOUNDS = re.compile(r"([1-9][0-9]{0,4})-([1-9][0-9]{0,4})", re.ASCII)
_NOT = frozenset({"", "0", "no", "false", "off"})


def requested_bounds(words: Sequence[str], variable: str | None) -> str | None:
    """What was asked for, right or wrong; None: nothing. The comment's word goes first."""
    mark = f"{VARIABLE}="
    found = [word.removeprefix(mark) for word in words if word.startswith(mark)]
    if found:
        return found[0] if len(found) == 1 else " ".join(found)
    said = (variable or "").strip()
    return None if said.lower() in _NOT else said[:MAX_CHARS]


def parse_bounds(asked: str | None) -> tuple[int, int] | None:
    """Fewest and most GPUs; None where nothing was asked, or nothing that counts."""
    match = _BOUNDS.fullmatch(asked or "")
    if match is None or int(match[1]) > int(match[2]):
        return None
    return int(match[1]), int(match[2])


def write(folder: Path, jobs: Mapping[int, str]) -> None:
    """Replace the file, whole at once. Raises OSError."""
    body = {"v": VERSION, "jobs": {str(job): said for job, said in sorted(jobs.items())}}
    replace_file(folder / NAME, json.dumps(body).encode(), durable=False)


def read(folder: Path) -> dict[int, str]:
    """What each job's environment said; nothing where nobody wrote. Raises InputError."""
    path = folder / NAME
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if body["v"] != VERSION:
            raise ValueError(f"version {body['v']!r}, expected {VERSION}")
        return {int(job): str(said) for job, said in body["jobs"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(str(path), f"is not what the keeper writes: {error!r}") from None
