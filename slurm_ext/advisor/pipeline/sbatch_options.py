"""sbatch's options by their long names: of a script's head, of words, of the environment. Pure.

Everything is linear in the text. Source: sbatch(1), and what sbatch 22.05.8 says with -v.
"""

import re
import shlex
from collections.abc import Container, Iterator, Mapping, Sequence

from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_request import OPTIONS

PREFIX = "#SBATCH"
FLAGS = "HhIkOQsVvW"  # short options without a value
_SHORT = {
    "A": "account",
    "a": "array",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "G": "gpus",
    "J": "job-name",
    "M": "clusters",
    "N": "nodes",
    "n": "ntasks",
    "p": "partition",
    "q": "qos",
    "s": "oversubscribe",
    "t": "time",
}
_LONG = ("comment", "cpus-per-gpu", "dependency", "exclusive", "export", "gpu-bind", "gpu-freq")
_IGNORE = "ignore-pbs"
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_LAYOUT = ("ntasks-per-gpu", "ntasks-per-node", "prefer", "reservation")
_UNDERSTOOD = frozenset((*_SHORT.values(), *_LONG, *_MEMORY, *_LAYOUT, *OPTIONS, _IGNORE))
_BARE = ("exclusive", _IGNORE)  # set by an empty variable, too
_FOREIGN = re.compile(r"^#(PBS|BSUB)[ \t]*[\"']?-", re.MULTILINE)
_OF_VARIABLES = {
    "SBATCH_ARRAY_INX": "array",
    "SBATCH_IGNORE_PBS": _IGNORE,
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_TIMELIMIT": "time",
    **{
        f"SBATCH_{name.replace('-', '_').upper()}": name
        for name in (
            *("account", "constraint", "cpus-per-gpu", "exclusive", "export", "gpu-bind"),
            *("gpu-freq", "gpus", "gpus-per-node", "gpus-per-task", "gres", "job-name"),
            *("mem-per-cpu", "mem-per-gpu", "partition", "qos", "reservation"),
        )
    },
}

Options = Iterator[tuple[str, str | None]]


def options_of(text: str, source: str) -> dict[str, str | None]:
    """Each option's last value by its long name, understood or not. Raises InputError."""
    return {name: value for _, name, value in header_options(text, source)}


def header_options(text: str, source: str) -> Iterator[tuple[int, str, str | None]]:
    """Line number, long name and value of each option of a script, in order."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            return  # sbatch looks no further than the first command
        if not line.startswith(PREFIX):
            continue
        try:
            words = shlex.split(line[len(PREFIX) :], comments=True)
        except ValueError as error:
            raise InputError(source, f"{error} in {line!r}", line=number) from None
        yield from ((number, *pair) for pair in typed_options(words))


def environment_options(environ: Mapping[str, str]) -> dict[str, str]:
    """Options that sbatch takes from its environment: they override a script's, not typed ones."""
    named = {option: environ.get(variable) for variable, option in _OF_VARIABLES.items()}
    return {
        option: value
        for option, value in named.items()
        if value or (value is not None and option in _BARE)
    }


def refuse_foreign(text: str, source: str, given: Container[str]) -> None:
    """Raise InputError for options of PBS or LSF, which sbatch obeys anywhere in a script.

    `given`: names of all other options, of which one turns these off.
    """
    found = _FOREIGN.search(text)
    if found and _IGNORE not in given:
        why = f"has #{found[1]} options, which sbatch obeys and dlqueue does not read"
        how = f"write them as {PREFIX}, or add {PREFIX} --{_IGNORE} to have them ignored"
        line = text.count("\n", 0, found.start()) + 1
        raise InputError(source, f"{why}: {how}", line=line)


def typed_options(words: Sequence[str]) -> Options:
    """`--name=value`, `--name value`, `-n value` and `-nvalue` as (long name, value)."""
    for word, after in zip(words, [*words[1:], None], strict=False):
        name, equals, value = word.partition("=")
        following = None if after is None or after.startswith("-") else after
        if name.startswith("--"):
            long = _whole(name[2:])
            apart = long not in ("exclusive", "oversubscribe")  # else never a word apart
            yield long, value if equals or not apart else following
        elif word.startswith("-"):
            yield from _of_letters(word[1:], following)
        elif word in ("hetjob", "packjob"):
            yield "hetjob", None


def _of_letters(letters: str, following: str | None) -> Options:
    """Short options in one word: flags, and behind them one with a value, glued or apart."""
    valued = letters.lstrip(FLAGS)
    if "s" in letters.removesuffix(valued):
        yield _SHORT["s"], None
    if valued[:1] in _SHORT:
        yield _SHORT[valued[0]], valued[1:] or following


def _whole(name: str) -> str:
    """The option that `name` begins, as sbatch takes what only one begins with; else `name`."""
    if name in _UNDERSTOOD:
        return name
    begun = [option for option in _UNDERSTOOD if name and option.startswith(name)]
    return begun[0] if len(begun) == 1 else name
