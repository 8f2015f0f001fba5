"""Similarity of submissions as 64-bit keys, one a level: equal keys of a level mean similar jobs.

Pure string work in linear time, because it runs for every submission and over any user's text.
A batch of 32 is not one of 256, and `train.py 2` is not `train.py 0`: every number counts, but
those of options that only seed, name or place a run.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

from slurm_ext.core.errors import WireError
from slurm_ext.core.records import Level, Submission

MAX_SCRIPT_BYTES = 32 * 1024
MAX_SCRIPT_LINES = 2048
_MOST_SEARCHED = 16 * 1024  # characters of commands and arguments; beyond, every number counts
_MOST_PARTS = 512  # lines that are hashed one by one: nobody writes more commands by hand
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # of str.splitlines
_DIGITS = {ord(digit): "#" for digit in "0123456789"}
_SIGNED = 1 << 63  # SQLite's integers are signed
# Names of a job that was given none, by sbatch and submitit.
_NO_NAMES = frozenset({"", "sbatch", "submitit", "wrap"})
_raw = partial(str.encode, encoding="utf-8", errors="surrogatepass")


class _Prefixes(dict[int, bytes]):
    """The prefix of a part by its size, made when it is first wanted."""

    def __missing__(self, size: int) -> bytes:
        return b"%d:" % size


_PREFIXES = _Prefixes({size: b"%d:" % size for size in range(256)})


def seen_script(script: str) -> tuple[str, bool]:
    """The part of a script that is looked at, and True if that is not all. Raises WireError.

    A user may write 4 MiB, and slurmctld waits for the answer. Lua cuts at the same byte.
    """
    try:
        raw = script.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise WireError("job.script holds half a character") from None
    ends = filter(script.__contains__, _LINE_ENDS)  # which is found sooner than counted
    few = sum(map(script.count, ends)) < MAX_SCRIPT_LINES
    if len(raw) <= MAX_SCRIPT_BYTES and (few or len(script.splitlines()) <= MAX_SCRIPT_LINES):
        return script, False
    return raw[:MAX_SCRIPT_BYTES].decode("utf-8", "surrogateescape"), True


def keys_of(job: Submission) -> Mapping[Level, int]:
    """Return one key for each level, without levels that the job has nothing for (no script).

    `python train.py` of another user or in another folder is another training: the nearest level
    has both in its key, the next one the user and the programs' paths within their project, with
    all arguments that change the work. The same program alone is only KIND, whoever ran it.
    A script that is not seen whole has no key, since what follows may be anything.
    A user without a name has the number: nobody else's jobs are alike then.
    """
    # Expressions are compiled at import, and OpenSSL is loaded with hashlib, for which a login node
    # that only asks need not wait.
    from hashlib import blake2b

    from slurm_ext.core.commands.programs import programs
    from slurm_ext.core.commands.words import in_one_line, same_work

    user, kind = job.user_name or f"#{job.user_id}", None
    keys = dict[Level, int]()
    if job.script is not None and not job.script_truncated:
        text, own, here = _commands(job.script), [_raw(user)], [_raw(job.work_dir)]
        raw, rest = _raw(text), [b"", *map(_raw, job.argv[1:])]
        parts = -1 if text.count("\n") < _MOST_PARTS else 0
        exact = raw.split(b"\n", parts) if raw else []
        searched = f"{text}\n{' '.join(job.argv[1:])}"[:_MOST_SEARCHED]
        after = b"%b\n%b" % (raw, b" ".join(rest[1:]))  # encoded once: it may be most of the time
        after = after[len(_raw(searched)) :]
        words = in_one_line(searched)
        files = list(map(_raw, sorted(programs(words, job.work_dir))))
        alike = blake2b(_raw(same_work(words)) + after).digest()
        keys[Level.SCRIPT_ARGS] = _key(Level.SCRIPT_ARGS, [*own, *here, *exact, *rest])
        keys[Level.SCRIPT] = _key(Level.SCRIPT, [*own, *files, alike])
        if files:
            kind = keys[Level.KIND] = _key(Level.KIND, files)
    return keys | record_keys(user, job.name, job.account, kind)


def _commands(script: str) -> str:
    """Its lines without comments: #SBATCH says how much a job needs, and not what it is."""
    lines = map(str.strip, script.splitlines())
    return "\n".join([line for line in lines if line and line[0] != "#"])


def record_keys(
    user: str | None, job_name: str | None, account: str | None = None, kind: int | None = None
) -> dict[Level, int]:
    """The keys that need no script: of a run record, and of its program's `kind` where known."""
    keys = {Level.CLUSTER: _cluster_key()}
    for level, owner in ((Level.OWN_KIND, user), (Level.ACCOUNT_KIND, account)):
        if owner and kind is not None:
            keys[level] = _key(level, [_raw(str(kind)), _raw(owner)])
    if user and (job_name or "") not in _NO_NAMES:
        keys[Level.USER_NAME] = user_name_key(user, job_name or "")
    return keys


@lru_cache(maxsize=1024)
def user_name_key(user: str, job_name: str) -> int:
    """Key of one user's jobs of one name, whatever numbers are in the name."""
    return _key(Level.USER_NAME, [_raw(user), _raw(job_name.translate(_DIGITS))])


def job_signature(keys: Mapping[Level, int]) -> str | None:
    """Name of a job in core/gpu_sharing.py: its script and arguments, else user and job name.

    A sweep over seeds is one job; one over batch sizes is not, as each uses a GPU in its own way.
    None where neither is known: nothing is predicted then.
    """
    for level in (Level.SCRIPT, Level.USER_NAME):
        if level in keys:
            return f"{keys[level] + _SIGNED:016x}"
    return None


def _key(level: Level, raws: Sequence[bytes]) -> int:
    """Hash of a level's parts, each behind its size, so that none runs into the next."""
    from hashlib import blake2b

    sized = [b""] * (2 * len(raws))
    sized[::2] = map(_PREFIXES.__getitem__, map(len, raws))
    sized[1::2] = raws
    text = level.encode() + b"".join(sized)
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") - _SIGNED


@lru_cache(maxsize=1)
def _cluster_key() -> int:
    return _key(Level.CLUSTER, ())
