"""Similarity of submissions as five 64-bit keys: equal keys of a level mean similar jobs.

Pure string work in linear time, because it runs for every submission and over any user's text.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise

from slurm_ext.core.records import Level, Submission

_DIGITS = {ord(digit): "#" for digit in "0123456789"}
_SIGNED = 1 << 63  # SQLite's integers are signed
_NO_NAMES = frozenset({"", "sbatch", "wrap"})  # sbatch's names for a job without one


def keys_of(job: Submission) -> Mapping[Level, int]:
    """Return one key for each level, without levels that the job has nothing for (no script).

    `python train.py` of another user or in another folder is another training: the nearest level
    has both in its key, the next one the user. The same program alone is only KIND.
    """
    keys = record_keys(job.user_name, job.name)
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


def record_keys(user: str | None, job_name: str | None) -> dict[Level, int]:
    """The keys of a job whose script is not known: of a run record without a decision."""
    keys = {Level.CLUSTER: _CLUSTER_KEY}
    if user is not None and (job_name or "") not in _NO_NAMES:
        keys[Level.USER_NAME] = user_name_key(user, job_name or "")
    return keys


def user_name_key(user: str, job_name: str) -> int:
    """Key of one user's jobs of one name, whatever numbers are in the name."""
    return _key(Level.USER_NAME, [user, job_name.translate(_DIGITS)])


def job_signature(keys: Mapping[Level, int]) -> str | None:
    """Name of a job in core/gpu_sharing.py: its script without numbers, else user and job name.

    A sweep over numbers is one job. None where neither is known: nothing is predicted then.
    """
    for level in (Level.SCRIPT, Level.USER_NAME):
        if level in keys:
            return f"{keys[level] + _SIGNED:016x}"
    return None


def _commands(script: str) -> list[str]:
    """Lines that the script runs. #SBATCH lines say how much it needs and not what it is."""
    lines = map(str.strip, script.splitlines())
    return [line for line in lines if line and line[0] != "#"]


def _programs(commands: Iterable[str]) -> set[str]:
    """Base names of the Python files and modules that the commands mention."""
    programs: set[str] = set()
    for command in commands:
        if ".py" in command or "-m" in command:  # most lines mention none
            words = command.split()
            programs.update([word.rpartition("/")[2] for word in words if word[-3:] == ".py"])
            if "-m" in words:
                programs.update(_modules(words))
    return programs


def _modules(words: Sequence[str]) -> Iterable[str]:
    pairs = pairwise(words)
    return (word for before, word in pairs if before == "-m" and word[-3:] != ".py")


def _key(level: Level, parts: Iterable[str]) -> int:
    raws = [part.encode("utf-8", "surrogatepass") for part in parts]
    text = b"".join([level.encode(), *[b"%d:%b" % (len(raw), raw) for raw in raws]])
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") - _SIGNED


_CLUSTER_KEY = _key(Level.CLUSTER, ())
