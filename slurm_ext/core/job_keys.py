"""Similarity of submissions as 64-bit keys, one a level: equal keys of a level mean similar jobs.

Pure string work in linear time, because it runs for every submission and over any user's text.
A batch of 32 is not one of 256, and `train.py 2` is not `train.py 0`: every number counts, but
those of options that only seed, name or place a run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial, reduce
from hashlib import blake2b
from itertools import islice
from posixpath import join, normpath

from slurm_ext.core.errors import WireError
from slurm_ext.core.records import Level, Submission

MAX_SCRIPT_BYTES = 32 * 1024
MAX_SCRIPT_LINES = 4096
_DIGITS = {ord(digit): "#" for digit in "0123456789"}
_SIGNED = 1 << 63  # SQLite's integers are signed
_NO_NAMES = frozenset({"", "sbatch", "wrap"})  # sbatch's names for a job without one
# Ends of an option's name, whatever stands before them: --random-seed, --optimizer.lr.
_SEEDS = "seed|port|lr|wd|learning_?rate|weight_?decay"
_RUNS = "out|output|log|logs|logging|save|run|exp|experiment|job|work|wandb|tensorboard|results?"
_PLACES = "dir|directory|folder|root|path|file|prefix|name|id|tag|group"
# Whole names: --model-name says which model.
_WHOLE = "name|tag|out|output|run|resume|notes"
_IDLE = re.compile(rf"(?:.*[_.])?(?:{_SEEDS}|(?:{_RUNS})_?(?:{_PLACES}))|{_WHOLE}", re.ASCII)
_NUMBER = re.compile(r"[0-9]+(?:[.+\-eE:_]+[0-9]+)*", re.ASCII)
_DATE = re.compile(
    r"(?<![0-9])20[0-9]{2}([-_.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[-_T]?[0-2][0-9][-_:.h]?[0-5][0-9](?:[-_:.m]?[0-5][0-9])?)?(?![0-9])",
    re.ASCII,
)
_END = "\0"  # stands for a line's end among its words: no script of Slurm's holds NUL
_MOST_WORDS = 4096  # that are searched for options and dates; in the rest, every number counts
_MOST_OPTIONS = 256  # and dates, that are looked at
_MOST_CHARS = 8192  # of them
_MOST_NAME_CHARS = 64  # from the end of an option's name: more than any name that is known
_MOST_PROGRAMS = 256  # files, and as many modules, in the order in which they are named
_MOST_FOLDERS = 64  # `cd`s that are followed
_MOST_PATH_CHARS = 1024
_PLAIN_FOLDERS = frozenset(
    ("src", "source", "code", "scripts", "script", "bin", "tools", "examples", "app", "training")
)
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
    if len(raw) <= MAX_SCRIPT_BYTES and len(script.splitlines()) <= MAX_SCRIPT_LINES:
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
    user, kind = job.user_name or f"#{job.user_id}", None
    keys = dict[Level, int]()
    if job.script is not None and not job.script_truncated:
        # #SBATCH lines say how much it needs and not what it is.
        lines = map(str.strip, job.script.splitlines())
        text = "\n".join([line for line in lines if line and line[0] != "#"])
        own, here = [_raw(user)], [_raw(job.work_dir)]
        exact = _raw(text).split(b"\n") if text else []
        rest = [b"", *map(_raw, job.argv[1:])]
        words = f"{text}\n{' '.join(job.argv[1:])}".replace("\n", f" {_END} ").split()
        files = list(map(_raw, sorted(_programs(words, job.work_dir))))
        alike = blake2b(_raw(" ".join(_same_work(words)))).digest()
        keys[Level.SCRIPT_ARGS] = _key(Level.SCRIPT_ARGS, [*own, *here, *exact, *rest])
        keys[Level.SCRIPT] = _key(Level.SCRIPT, [*own, *files, alike])
        if files:
            kind = keys[Level.KIND] = _key(Level.KIND, files)
    return keys | record_keys(user, job.name, job.account, kind)


def record_keys(
    user: str | None, job_name: str | None, account: str | None = None, kind: int | None = None
) -> dict[Level, int]:
    """The keys that need no script: of a run record, and of its program's `kind` where known."""
    keys = {Level.CLUSTER: _CLUSTER_KEY}
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


def _same_work(words: Sequence[str]) -> list[str]:
    """The words without numbers that do not change the work: seeds, learning rates, dates."""
    kept, room = list(words), _MOST_CHARS
    first = enumerate(islice(words, _MOST_WORDS))
    looked_at = (at for at, w in first if w[0] == "-" or "=" in w or "20" in w)
    for at in islice(looked_at, _MOST_OPTIONS):
        word = words[at]
        room -= len(word)
        if room < 0:
            break
        name, sign, value = word.partition("=")
        option = name.lstrip("-\"'").replace("-", "_").lower()
        if _IDLE.fullmatch(option[-_MOST_NAME_CHARS:]):
            if sign:
                kept[at] = f"{name}={_NUMBER.sub('#', value)}"
            elif word[0] == "-" and words[at + 1 : at + 2] and words[at + 1][:2] != "--":
                kept[at + 1] = _NUMBER.sub("#", words[at + 1])
        elif "20" in word:
            kept[at] = _DATE.sub("#", kept[at])
    return kept


def _programs(words: Sequence[str], work_dir: str) -> set[str]:
    """Python files, by their path within the project, and modules that the commands mention.

    A path ends with the file and its folder, and goes on where that folder's name is everybody's:
    mnist/main.py, unet/src/train.py. Every `cd` is followed: what it leads to is the project.
    """
    text = f" {' '.join(words)} "
    files = set(islice(_words_before(text, ".py "), _MOST_PROGRAMS))
    modules = set(islice(_words_after(text, " -m "), _MOST_PROGRAMS)) - files
    if not files and not modules:
        return set()
    moves = _words_after(text, " cd ")
    folder = reduce(_moved, islice(moves, _MOST_FOLDERS), work_dir[-_MOST_PATH_CHARS:])
    paths = files | {module for module in modules if "." not in module}
    named = {_within(folder, path[-_MOST_PATH_CHARS:]) for path in paths}
    return named | {module for module in modules if "." in module}


def _words_before(text: str, end: str) -> Iterator[str]:
    """Words that end like this, in a text whose words stand between single spaces."""
    at = text.find(end)
    while at >= 0:
        yield text[text.rfind(" ", 0, at) + 1 : at + len(end) - 1]
        at = text.find(end, at + 1)


def _words_after(text: str, word: str) -> Iterator[str]:
    """Words that follow this one on its line."""
    at = text.find(word)
    while at >= 0:
        begin = at + len(word)
        follower = text[begin : text.find(" ", begin)]
        if follower not in ("", _END):
            yield follower
        at = text.find(word, begin - 1)


def _moved(folder: str, path: str) -> str:
    """The folder after `cd path`; a leading variable or ~ is left out."""
    path = path[-_MOST_PATH_CHARS:].strip("\"';&")
    if path[:1] in ("$", "~"):
        path = path.partition("/")[2]
    return normpath(join(folder, path))[-_MOST_PATH_CHARS:]


@lru_cache(maxsize=1024)
def _within(folder: str, path: str) -> str:
    """The end of a program's path that names its project."""
    parts = _moved(folder, path).split("/")
    size = 2
    while size < len(parts) and parts[-size] in _PLAIN_FOLDERS:
        size += 1
    return _DATE.sub("#", "/".join(parts[-size:]))


def _key(level: Level, raws: Sequence[bytes]) -> int:
    """Hash of a level's parts, each behind its size, so that none runs into the next."""
    sized = [b""] * (2 * len(raws))
    sized[::2] = map(_PREFIXES.__getitem__, map(len, raws))
    sized[1::2] = raws
    text = level.encode() + b"".join(sized)
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") - _SIGNED


_CLUSTER_KEY = _key(Level.CLUSTER, ())
