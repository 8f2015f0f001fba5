"""Similarity as five 64-bit keys: two submissions are alike on a level when its keys are equal.

Pure string work in linear time, because it runs for every submission and over any user's text.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise

from slurm_ext.core.records import Level, Submission

_DIGITS = {ord(digit): "#" for digit in "0123456789"}
_SIGNED = 1 << 63  # SQLite's integers are signed
_NO_NAMES = frozenset({"", "sbatch", "wrap"})  # what sbatch calls a job that nobody named


def keys_of(job: Submission) -> Mapping[Level, int]:
    """One key a level; levels whose evidence is absent (no script, no program) are left out.

    `python train.py` is another training in another user's or folder's hands: the nearest level
    takes both into account, the next one the user; the same program alone is only KIND.
    """
    keys = {Level.CLUSTER: _key(Level.CLUSTER, ())}
    if job.name not in _NO_NAMES:
        keys[Level.USER_NAME] = user_name_key(job.user_name, job.name)
    if job.script is not None:
        commands = _commands(job.script)
        unnumbered = "\n".join(commands).translate(_DIGITS).split("\n") if commands else []
        where = [job.user_name, job.work_dir]
        keys[Level.SCRIPT_ARGS] = _key(Level.SCRIPT_ARGS, [*where, *commands, "", *job.argv[1:]])
        keys[Level.SCRIPT] = _key(Level.SCRIPT, [job.user_name, *unnumbered])
        programs = sorted(_programs(commands))
        if programs:
            keys[Level.KIND] = _key(Level.KIND, programs)
    return keys


def user_name_key(user: str, job_name: str) -> int:
    """The key of one user's jobs of one name; numbers in the name do not tell jobs apart."""
    return _key(Level.USER_NAME, [user, job_name.translate(_DIGITS)])


def job_signature(keys: Mapping[Level, int]) -> str | None:
    """What names a job in core/gpu_sharing.py: the script, numbers apart, else user and job name.

    A sweep over numbers is one job; None where neither is known, and nothing is foretold.
    """
    for level in (Level.SCRIPT, Level.USER_NAME):
        if level in keys:
            return f"{keys[level] + _SIGNED:016x}"
    return None


def _commands(script: str) -> list[str]:
    """What the script runs: no comments (so no #SBATCH, which say how much and not what)."""
    lines = map(str.strip, script.splitlines())
    return [line for line in lines if line and line[0] != "#"]


def _programs(commands: Iterable[str]) -> set[str]:
    """Base names of the Python files and modules that the commands mention."""
    found: set[str] = set()
    for command in commands:
        if ".py" in command or "-m" in command:  # most lines mention none
            words = command.split()
            found.update([word.rpartition("/")[2] for word in words if word[-3:] == ".py"])
            if "-m" in words:
                found.update(_modules(words))
    return found


def _modules(words: Sequence[str]) -> Iterable[str]:
    pairs = pairwise(words)
    return (word for before, word in pairs if before == "-m" and word[-3:] != ".py")


def _key(level: Level, parts: Iterable[str]) -> int:
    raws = [part.encode("utf-8", "surrogatepass") for part in parts]
    text = b"".join([level.encode(), *[b"%d:%b" % (len(raw), raw) for raw in raws]])
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") - _SIGNED
