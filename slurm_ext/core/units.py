"""The only parser of Slurm's times, memory sizes and TRES lists.

Slurm writes one thing in many ways (`90`, `1:30:00`, `1-12`; `4G`, `4096M`, `4194304K`). Nobody
else in dlqueue parses them but node/record/squeue.py, which runs where this package cannot be
imported; one table of cases tests both. Source: sbatch(1), slurm.conf(5).
"""

import re

MIB = 1024 * 1024
MINUTES_PER_DAY = 24 * 60
UNLIMITED_TIMES = frozenset({"UNLIMITED", "INFINITE", "-1"})
_TIME = re.compile(r"(?:([0-9]{1,10})-)?([0-9]{1,10}(?::[0-9]{1,10}){0,2})")
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGTP]?)(?:i?B)?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def parse_minutes(text: str) -> float | None:
    """Minutes of a Slurm time; None is no limit. Raises ValueError on anything else.

    Forms (sbatch(1), --time): M, M:S, H:M:S, D-H, D-H:M, D-H:M:S.
    """
    text = text.strip()
    if text.upper() in UNLIMITED_TIMES:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a Slurm time (try 90, 1:30:00 or 1-12:00)")
    days, clock = match.groups()
    numbers = [int(number) for number in clock.split(":")]
    if len(numbers) < 3:  # days begin with hours; without them, minutes come first
        numbers = [*numbers, 0, 0] if days else [0, *numbers, 0]
    hours, minutes, seconds = numbers[:3]
    return int(days or 0) * MINUTES_PER_DAY + hours * 60 + minutes + seconds / 60


def format_minutes(minutes: float | None) -> str:
    """D-HH:MM:SS as Slurm prints it; `parse_minutes` reads it back to the second."""
    if minutes is None:
        return "UNLIMITED"
    seconds = round(minutes * 60)
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def parse_memory(text: str, default_unit: str = "M") -> int:
    """Bytes of a Slurm size such as 4G, 400M or 512 (of `default_unit`). Raises ValueError."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a memory size (try 400M or 4G)")
    number, unit = match.groups()
    return round(float(number) * power_of_1024(unit or default_unit))


def power_of_1024(unit: str) -> int:
    """Factor of a unit such as k, M or G; 1 of none."""
    return int(1024 ** _POWERS[unit.upper()])


def format_memory(size_bytes: int) -> str:
    """A size in its largest exact unit, such as 4G, 400M or 3K; kibibytes are rounded up."""
    for unit in "PTGM":
        factor = power_of_1024(unit)
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{-(-size_bytes // 1024)}K"


def parse_tres(text: str) -> dict[str, str]:
    """Name → count of a TRES list such as `cpu=4,mem=1G,gres/gpu:a100=2`. Raises ValueError."""
    pairs = [item.partition("=") for item in text.split(",") if item.strip()]
    tres = {name.strip(): count.strip() for name, _, count in pairs}
    if not (all(tres) and all(tres.values())):
        raise ValueError(f"{text[:200]!r} is not a TRES list (try cpu=4,mem=1G,gres/gpu=1)")
    return tres
