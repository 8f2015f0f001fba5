"""Read a batch script: its #SBATCH options as a Submission, with no Slurm at hand.

Only options that a decision looks at are understood; the others are stepped over, as sbatch itself
is the judge of them. Everything is linear in the text. Source: sbatch(1), OPTIONS.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import PurePath
from typing import Any

from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_request import OPTIONS, gres_of_option
from slurm_ext.core.records import Submission
from slurm_ext.core.units import MIB, parse_memory, parse_minutes

PREFIX = "#SBATCH"
NO_SCRIPT = (
    "is not a batch script: it has to begin with #! as in #!/bin/bash; `dlqueue run` runs a program"
    " without one"
)
_EXCLUSIVE = {"": 0, "user": 2, "mcs": 3}
_SHORT = {
    "A": "account",
    "a": "array",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "G": "gpus",
    "J": "job-name",
    "N": "nodes",
    "n": "ntasks",
    "p": "partition",
    "q": "qos",
    "s": "oversubscribe",
    "t": "time",
}


def read_script(
    text: str,
    source: str,
    *,
    args: tuple[str, ...] = (),
    user_name: str = "",
    user_id: int = -1,
    work_dir: str = "",
    env: Mapping[str, str] | None = None,
    typed: Sequence[str] = (),
) -> Submission:
    """Return the submission of `sbatch TYPED SOURCE ARGS`, typed in `work_dir`.

    What is typed overrides the script's own options. Raises InputError with file and line.
    """
    if not text.startswith("#!"):
        raise InputError(source, NO_SCRIPT)
    fields: dict[str, Any] = {"name": PurePath(source).name, "work_dir": work_dir}
    gres: list[str] = []
    from_line = ((None, *pair) for pair in _pairs([*typed]))
    for line, option, value in (*_options(text, source), *from_line):
        try:
            _take(fields, gres, option, value)
        except ValueError as error:
            raise InputError(source, f"--{option}: {error}", line=line) from None
    return Submission(
        script=text,
        argv=(source, *args),
        user_name=user_name,
        user_id=user_id,
        env=env or {},
        gres=",".join(gres) or None,
        **_with_cpus(fields),
    )


def options_of(text: str, source: str) -> dict[str, str | None]:
    """Each option's last value by its long name, understood or not. Raises InputError."""
    return {name: value for _, name, value in _options(text, source)}


def _options(text: str, source: str) -> Iterator[tuple[int, str, str | None]]:
    """Line number, long name and value of each option, in order."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            return  # sbatch looks no further than the first command
        if not line.startswith(PREFIX):
            continue
        try:
            words = shlex.split(line[len(PREFIX) :], comments=True)
        except ValueError as error:
            raise InputError(source, f"{error} in {line!r}", line=number) from None
        yield from ((number, *pair) for pair in _pairs(words))


def _pairs(words: list[str]) -> Iterator[tuple[str, str | None]]:
    """`--name=value`, `--name value`, `-n value` and `-nvalue` as (long name, value)."""
    for word, after in zip(words, [*words[1:], None], strict=False):
        name, equals, value = word.partition("=")
        following = None if after is None or after.startswith("-") else after
        if name in ("--exclusive", "--oversubscribe"):  # their value is never a word apart
            yield name[2:], value
        elif name.startswith("--"):
            yield name[2:], value if equals else following
        elif word.startswith("-") and word[1:2] in _SHORT:
            yield _SHORT[word[1]], word[2:] or following
        elif word in ("hetjob", "packjob"):
            yield "hetjob", None


def _take(fields: dict[str, Any], gres: list[str], option: str, value: str | None) -> None:
    """Put one option's meaning into `found`. Raises ValueError."""
    if option == "exclusive":
        fields["shared"] = _exclusive(value)
    elif option == "oversubscribe":
        fields["shared"] = 1
    elif option == "hetjob":
        fields["het_offset"] = 0
    elif option in OPTIONS:
        field = f"tres_per_{OPTIONS[option]}"
        gres.append(gres_of_option(option, _some(value)))
        fields[field] = ",".join(filter(None, [fields.get(field), gres[-1]]))
    elif option in _FIELDS:
        field, parse = _FIELDS[option]
        fields[field] = parse(_some(value))
    elif option == "nodes":
        fields["min_nodes"], fields["max_nodes"] = _nodes(_some(value))


def _with_cpus(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that Slurm derives from -c and -n (slurm-facts: `-n2 -c4` has min_cpus 8)."""
    cpus = fields.get("cpus_per_task")
    if cpus is None:
        return fields
    return {**fields, "pn_min_cpus": cpus, "min_cpus": cpus * fields.get("num_tasks", 1)}


def _some(value: str | None) -> str:
    if not value:
        raise ValueError("needs a value")
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 2**31:
        raise ValueError(f"{text!r} is not a positive count")
    return int(text)


def _mib(text: str) -> int:
    return ceil(parse_memory(text) / MIB)


def _minutes(text: str) -> int | None:
    minutes = parse_minutes(text)
    return None if minutes is None else ceil(minutes)


def _nodes(text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    return _count(low), _count(high if dash else low)


def _exclusive(value: str | None) -> int:
    if (value or "") not in _EXCLUSIVE:
        raise ValueError(f"{value!r} is not one of user, mcs")
    return _EXCLUSIVE[value or ""]


_FIELDS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "account": ("account", str),
    "array": ("array", str),
    "chdir": ("work_dir", str),
    "comment": ("comment", str),
    "constraint": ("features", str),
    "cpus-per-gpu": ("cpus_per_tres", lambda text: f"gpu:{_count(text)}"),
    "cpus-per-task": ("cpus_per_task", _count),
    "gpu-bind": ("tres_bind", str),
    "gpu-freq": ("tres_freq", str),
    "job-name": ("name", str),
    "mem": ("mem_per_node_mib", _mib),
    "mem-per-cpu": ("mem_per_cpu_mib", _mib),
    "mem-per-gpu": ("mem_per_tres", str),
    "ntasks": ("num_tasks", _count),
    "ntasks-per-gpu": ("ntasks_per_tres", _count),
    "ntasks-per-node": ("ntasks_per_node", _count),
    "partition": ("partition", str),
    "prefer": ("prefer", str),
    "qos": ("qos", str),
    "reservation": ("reservation", str),
    "time": ("time_limit_minutes", _minutes),
}
