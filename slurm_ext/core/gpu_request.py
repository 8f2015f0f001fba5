"""Counts of the GPUs that a job asks for: the only parser of Slurm's lists of GRES.

Slurm writes one request in many ways: `gres:gpu:1` (22.05), `gres/gpu:a100:1` and `gres/gpu=1`
(23.11 and later), `gpu:a100:2(S:0-1)` of a node. Linear in the text, and no text is an error.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from slurm_ext.core.records import Submission
from slurm_ext.core.units import parse_tres, power_of_1024

UNITS = ("node", "job", "task", "socket")
OPTIONS: Mapping[str, str] = {
    "gres": "node",
    "gpus": "job",
    "gpus-per-node": "node",
    "gpus-per-task": "task",
    "gpus-per-socket": "socket",
}
"""sbatch's options that ask for GPUs, and what each counts them by."""

SHARED_KINDS = ("mps", "shard")  # parts of one GPU
_SOCKETS = re.compile(r"\([^()]*\)")
_COUNT = re.compile(r"([0-9]{1,12})([KMGT]?)", re.ASCII | re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_SIZE = "gb"  # ends a word of the driver alone: a100_80 is the A100 80GB


@dataclass(frozen=True, slots=True)
class Gres:
    """One item of a list: `gres/gpu:a100:2` is gpu, a100 and 2."""

    kind: str
    type: str  # empty: any type
    count: int


def parse_gres(text: str | None) -> Sequence[Gres]:
    """Return the items of a list; a count that is left out is 1."""
    return _parsed(text) if text else ()


@lru_cache(maxsize=64)  # a submission's lists are asked for several times, and may be long
def _parsed(text: str) -> tuple[Gres, ...]:
    items = []
    for item in _SOCKETS.sub("", text).split(","):
        plain = item.strip().partition("(")[0]
        plain = plain.removeprefix("gres:").removeprefix("gres/").replace("=", ":")
        if plain:
            kind, *rest = plain.split(":")
            number = _COUNT.fullmatch(rest[-1]) if rest else None
            count = int(number[1]) * power_of_1024(number[2]) if number else 1
            items.append(Gres(kind, ":".join(rest[:-1] if number else rest), count))
    return tuple(items)


def gpus_in(text: str | None) -> int:
    """GPUs of all types in a list."""
    return sum(item.count for item in parse_gres(text) if item.kind == "gpu")


def gres_of_option(option: str, value: str) -> str:
    """Return sbatch's list for `--OPTION=VALUE`: `--gpus=a100:2` is `gpu:a100:2`."""
    if option == "gres":
        return value
    return ",".join(f"gpu:{item}" for item in value.split(",") if item)


def gpus_named(option: str, word: str) -> bool:
    """True if this word of the option's value asks for GPUs."""
    return any(item.kind == "gpu" for item in parse_gres(gres_of_option(option, word)))


def count_gpus(tres_per: Mapping[str, str | None], *, nodes: int, tasks: int) -> int:
    """GPUs of the whole job, from its lists by unit (UNITS).

    --gpus is a total, which the other options only spread. Without it, the largest product counts,
    because each option must hold. The number of sockets is not known: one a node is assumed.
    """
    times = {"node": nodes, "task": tasks, "socket": nodes}
    spread = (count * gpus_in(tres_per.get(unit)) for unit, count in times.items())
    return gpus_in(tres_per.get("job")) or max(spread)


def gpus_of(job: Submission) -> int:
    """GPUs of the whole job; 0 where it asks for none, or only for parts of one."""
    tres_per = _tres_per(job)
    if not any(tres_per.values()):
        # With --ntasks-per-gpu and --ntasks alone, sbatch works out the GPUs.
        return -(-(job.num_tasks or 0) // job.ntasks_per_tres) if job.ntasks_per_tres else 0
    return count_gpus(tres_per, nodes=nodes_of(job), tasks=tasks_of(job))


def gpu_types(job: Submission) -> frozenset[str]:
    """Types of the GPUs that the job names: a100; empty where any will do."""
    items = (item for text in _tres_per(job).values() for item in parse_gres(text))
    return frozenset(item.type for item in items if item.kind == "gpu" and item.type)


def is_model(kind: str, model: str | None) -> bool:
    """True if Slurm's name of a GPU's type is part of its driver's name for it.

    It begins and ends where words of that do, as A10 is no part of an A100, nor L40 of an L40S.
    """
    name, words = plain_name(kind), _WORD.findall((model or "").lower())
    whole, ends = "".join(words), set(accumulate(map(len, words)))
    found = (at + len(name) for at in (0, *ends) if name and whole.startswith(name, at))
    return any(end in ends or whole.startswith(_SIZE, end) for end in found)


def plain_name(text: str) -> str:
    """A name of a GPU without all that Slurm and drivers write in several ways."""
    return "".join([c for c in text.lower() if c.isalnum()])


def devices_per_node(job: Submission) -> int:
    """GPUs that the job sees on its fullest node, as a run record counts them."""
    return devices(gpus_of(job), nodes_of(job), _tres_per(job).values())


def devices(gpus: int, nodes: int, lists: Iterable[str | None]) -> int:
    """GPUs on the fullest of `nodes`. A part of one (mps, shard) is a device, which hooks list."""
    return -(-gpus // nodes) or int(any(_is_shared(text) for text in lists))


def nodes_of(job: Submission) -> int:
    """Fewest nodes that the job may get."""
    return max(1, job.min_nodes or 1)


def tasks_of(job: Submission) -> int:
    """Tasks of the whole job; Slurm's default is one a node."""
    return max(1, job.num_tasks or (job.ntasks_per_node or 1) * nodes_of(job))


def allocated_gpus(tres: str) -> int:
    """GPUs of an AllocTRES list: the sum over all types, or the sum of the types.

    Raises ValueError where a count is no whole number.
    """
    counts = {
        name: _whole(name, text)
        for name, text in parse_tres(tres).items()
        if name.startswith("gres/gpu") and name[8:9] in ("", ":")
    }
    return counts.get("gres/gpu", sum(counts.values()))


def asked_type(tres: str) -> str:
    """The one model of GPU that a ReqTRES list names; empty: any, or several."""
    types = {item.type for item in parse_gres(tres) if item.kind == "gpu" and item.type}
    return types.pop() if len(types) == 1 else ""


def _tres_per(job: Submission) -> dict[str, str | None]:
    """The job's lists by unit. Early requests of the protocol joined them in one field."""
    lists = {unit: getattr(job, f"tres_per_{unit}") for unit in UNITS}
    if any(lists.values()) or job.cpus_per_tres:
        return lists
    return {"node": job.gres}


def _is_shared(text: str | None) -> bool:
    return any(item.kind in SHARED_KINDS and item.count for item in parse_gres(text))


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 12:
        raise ValueError(f"{name} is {text!r}: expected a whole number")
    return int(text)
