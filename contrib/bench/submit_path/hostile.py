"""Scripts and fields of every kind that a user can have accepted, each at its bound."""

import random
from typing import Any

from slurm_ext.core.job_keys import MAX_SCRIPT_BYTES, MAX_SCRIPT_LINES
from slurm_ext.core.records import ENV_NAMES

EMPTY = "#!/bin/sh\n"
LINE = MAX_SCRIPT_BYTES // MAX_SCRIPT_LINES  # bytes of each, where there are as many as may be
LINES = ("a", "1", "-m a", "a.py", "srun", "srun -G", "\u00e9", "\udcff", "# a", " a ")
UNITS = (
    *(line.ljust(LINE - 1, "x")[: LINE - 1] + "\n" for line in LINES),
    "x",
    "-m a ",
    "-m ",
    ".py ",
    " ",
    "a ",
    "\x01",
    '"',
    "\\",
    "\udcff",
    "\u00e9",
    "\x1c",
    "1",
    "-m a\n",
    ".py\n",
    "a\n",
    "\n",
    "srun -G\n",
    "\\\n",
    "#\n",
    "/.py ",
    "SLURM_GPUS ",
    "a,",
    "--seed 1 ",
    "seed=1 ",
    "cd a ",
    "2026-01-02 ",
    "-m\n",
    "cd\n",
    "a\t",
    "\u20ac\u3000",
    # {n}: another number each time, so that nothing is met twice.
    "{n}.py ",
    "{n}.py -m a{n} ",
    "../{n}.py ",
    "a{n}/2026-1.py ",
    "src/{n}.py ",
    "cd src/{n} ",
    "--x{n}.seed=1 ",
    "srun -x-G{n}\n",
)
FOLDERS = ("/a", "/src", "/20", "a")
Submitted = tuple[str, dict[str, Any], str]
"""A submission's script and fields, and what they are in words."""


def submission(number: int) -> Submitted:
    """One submission: each kind of text by itself first, then with others and with fields."""
    chance, fields = random.Random(number), _hostile_fields()
    unit = UNITS[number % len(UNITS)] + (chance.choice(UNITS) if number >= len(UNITS) else "")
    names = chance.sample(sorted(fields), k=min(number // len(UNITS), 3))
    whole = {key: value for name in names for key, value in fields[name].items()}
    what = f"{unit!r} again and again, {' and '.join(names) or 'nothing else'}"
    return _at_its_bound(unit), whole, what


def _hostile_fields() -> dict[str, dict[str, Any]]:
    """Every field that a user writes, at its bound and beyond."""
    lists = {
        f"tres_per_{unit}": "gres:gpu:a:1," * 400 for unit in ("node", "job", "task", "socket")
    }
    return {
        "none": {},
        "one GPU": {"tres_per_node": "gres:gpu:1", "comment": "dlqueue=share"},
        "an unknown GPU": {"tres_per_node": "gres:gpu:a{number}:1", "comment": "dlqueue=share"},
        **{f"folder {name}": {"work_dir": name * (1024 // len(name))} for name in FOLDERS},
        "gres": {**lists, "cpus_per_tres": "gres:gpu:1," * 400},
        "argv": {"argc": 99, "argv": dict.fromkeys(range(99), b"\x01\xff" * 300)},
        "partitions": {"partition": ",".join(f"p{n % 200}" for n in range(900))},
        "env": {"env": dict.fromkeys(ENV_NAMES, "x=1 " * 900)},
        "comment": {"comment": "dlqueue=share," * 400, "features": "a&" * 900},
        "names": {"qos": "q," * 900, "account": "a" * 4000, "reservation": "r," * 900},
    }


def _at_its_bound(unit: str) -> str:
    """A script of this text again and again, as long as one that is looked at may be."""
    room, parts = MAX_SCRIPT_BYTES - len(EMPTY), list[str]()
    lines = len((unit * 2).splitlines()) - len(unit.splitlines())  # that each one more begins
    most = (MAX_SCRIPT_LINES - 2) // lines if lines else room
    while len(parts) < most:
        parts.append(unit.replace("{n}", str(len(parts))))
        room -= len(as_bytes(parts[-1]))
        if room < 0:
            parts.pop()
            break
    return EMPTY + "".join(parts)


def as_bytes(value: Any) -> Any:
    """A text as Slurm holds it; all else as it is."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
