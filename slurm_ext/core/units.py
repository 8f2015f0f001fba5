"""The only parser of Slurm's times, memory sizes and TRES lists.

Slurm writes one thing in many ways (`90`, `1:30:00`, `1-12`; `4G`, `4096M`, `4194304K`). Nobody
else in dlqueue parses them; round trips are tested as properties. Source: sbatch(1), slurm.conf(5).
"""

import re

MINUTES_PER_DAY = 24 * 60
UNLIMITED_TIMES = frozenset({"UNLIMITED", "INFINITE", "-1"})
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGTP]?)(?:i?B)?", re.IGNORECASE)
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def parse_minutes(text: str) -> float | None:
    """Minutes of a Slurm time; None is no limit. Raises ValueError on anything else.

    Forms (sbatch(1), --time): M, M:S, H:M:S, D-H, D-H:M, D-H:M:S.
    """
    text = text.strip()
    if text.upper() in UNLIMITED_TIMES:
        return None
    days, dash, clock = text.rpartition("-")
    fields = clock.split(":")
    if not all(field.isdecimal() for field in [*fields, *([days] if dash else [])]):
        raise ValueError(f"{text!r} is not a Slurm time (try 90, 1:30:00 or 1-12:00)")
    numbers = [int(field) for field in fields]
    if len(numbers) > 3:
        raise ValueError(f"{text!r} has more than hours:minutes:seconds")
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        return int(days) * MINUTES_PER_DAY + hours * 60 + minutes + seconds / 60
    if len(numbers) == 3:
        return numbers[0] * 60 + numbers[1] + numbers[2] / 60
    return numbers[0] + (numbers[1] / 60 if len(numbers) == 2 else 0)


def format_minutes(minutes: float | None) -> str:
    """The D-HH:MM:SS form that Slurm prints; `parse_minutes` reads it back to the second."""
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
        raise ValueError(f"{text!r} is not a memory size (try 400M or 4G)")
    number, unit = match.groups()
    factor: int = 1024 ** _POWERS[(unit or default_unit).upper()]
    return round(float(number) * factor)


def format_memory(size_bytes: int) -> str:
    """The largest exact unit, at least one mebibyte's precision: 4G, 400M, 3K."""
    for unit in "PTGM":
        factor = 1024 ** _POWERS[unit]
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{-(-size_bytes // 1024)}K"


def parse_tres(text: str) -> dict[str, str]:
    """The name → count of a TRES list such as `cpu=4,mem=1G,gres/gpu:a100=2`. Raises ValueError."""
    pairs = [item.partition("=") for item in text.split(",") if item.strip()]
    for name, equals, count in pairs:
        if not (name and equals and count):
            raise ValueError(f"{text!r} is not a TRES list (try cpu=4,mem=1G,gres/gpu=1)")
    return {name.strip(): count.strip() for name, _, count in pairs}
