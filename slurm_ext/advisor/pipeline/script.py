"""Read a batch script: its #SBATCH options as a Submission, with no Slurm at hand.

Only options that a decision looks at are understood; the others are stepped over, as sbatch itself
is the judge of them. Everything is linear in the text. Source: sbatch(1), OPTIONS.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from os.path import join
from pathlib import PurePath
from typing import Any

from slurm_ext.advisor.pipeline.sbatch_options import header_options, refuse_foreign, typed_options
from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_request import OPTIONS, UNITS, count_gpus, gpus_in, gres_of_option
from slurm_ext.core.records import Submission
from slurm_ext.core.units import MIB, parse_memory, parse_minutes

NO_SCRIPT = (
    "is not a batch script: it has to begin with #! as in #!/bin/bash; `dlqueue run` runs a program"
    " without one"
)
_EXCLUSIVE = {"": 0, "user": 2, "mcs": 3}


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
    exported: Mapping[str, str] | None = None,
) -> Submission:
    """Return the submission of `sbatch TYPED SOURCE ARGS`, typed in `work_dir`.

    What is typed overrides the options that the environment has (`exported`), and these the
    script's own. Raises InputError with file and line.
    """
    if not text.startswith("#!"):
        raise InputError(source, NO_SCRIPT)
    fields: dict[str, Any] = {"name": PurePath(source).name, "work_dir": work_dir}
    gres: dict[str, str] = {}
    outside = ((None, *pair) for pair in (*(exported or {}).items(), *typed_options(typed)))
    given = (*header_options(text, source), *outside)
    refuse_foreign(text, source, {option for _, option, _ in given})
    for line, option, value in given:
        try:
            _take(fields, gres, option, value)
        except ValueError as error:
            raise InputError(source, f"--{option}: {error}", line=line) from None
    if "chdir" in fields:
        fields["work_dir"] = join(work_dir, fields.pop("chdir"))  # noqa: PTH118 (keeps "." as sbatch)
    fields |= {"gres": ",".join(gres.values()) or None, **_gres_fields(gres)}
    tasks = fields.get("num_tasks") or _tasks_by_gpu(fields)
    return Submission(
        script=text,
        argv=(source, *args),
        user_name=user_name,
        user_id=user_id,
        env=env or {},
        **_with_cpus(fields | ({"num_tasks": tasks} if tasks else {})),
    )


def _gres_fields(gres: Mapping[str, str]) -> dict[str, Any]:
    """Join the GPU options by what each counts them by."""
    fields: dict[str, Any] = {}
    for option, asked in gres.items():
        field = f"tres_per_{OPTIONS[option]}"
        fields[field] = ",".join(filter(None, [fields.get(field), asked]))
    return fields


def _take(fields: dict[str, Any], gres: dict[str, str], option: str, value: str | None) -> None:
    """Put one option's meaning into `found`. Raises ValueError."""
    if option == "exclusive":
        fields["shared"] = _exclusive(value)
    elif option == "oversubscribe":
        fields["shared"] = 1
    elif option == "hetjob":
        fields["het_offset"] = 0
    elif option in OPTIONS:
        gres[option] = gres_of_option(option, _some(value))
    elif option in _FIELDS:
        field, parse = _FIELDS[option]
        fields[field] = parse(_some(value))
    elif option == "nodes":
        fields["min_nodes"], fields["max_nodes"] = _nodes(_some(value))


def _tasks_by_gpu(fields: Mapping[str, Any]) -> int:
    """Tasks that sbatch works out from the GPUs; 0: it does not."""
    per_task, per_gpu = gpus_in(fields.get("tres_per_task")), fields.get("ntasks_per_tres", 0)
    if per_task:
        return gpus_in(fields.get("tres_per_job")) // per_task
    nodes: int = fields.get("min_nodes") or 1
    lists = {unit: fields.get(f"tres_per_{unit}") for unit in UNITS}
    return int(per_gpu * count_gpus(lists, nodes=nodes, tasks=1))


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
    "chdir": ("chdir", str),
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
