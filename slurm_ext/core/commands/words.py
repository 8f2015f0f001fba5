"""Words of a script's commands, and the numbers among them that do not change the work.

The words stay one text with single spaces, because a list of 30,000 words takes a millisecond and
slurmctld waits.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice

LINE_END = "\0"  # stands for a line's end among its words: no script of Slurm's holds NUL
# Those of str.isspace, by which str.split parts words; the first ones are all that ASCII has.
_SPACES = "\t\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B)))
SPACES = _SPACES + "\u2028\u2029\u202f\u205f\u3000"
# Ends of an option's name, whatever stands before them: --random-seed, --optimizer.lr.
_SEEDS = "seed port lr wd learning_rate learningrate weight_decay weightdecay"
_RUNS = (
    "out output log logs logging save run exp experiment job work wandb tensorboard result results"
)
_PLACES = "dir directory folder root path file prefix name id tag group"
_IDLE_ENDS = frozenset(_SEEDS.split()) | {
    f"{run}{joint}{place}"
    for run in _RUNS.split()
    for joint in ("", "_")
    for place in _PLACES.split()
}
# Whole names: --model-name says which model.
_IDLE_NAMES = frozenset(["name", "tag", "out", "output", "run", "resume", "notes"])
_NUMBER = re.compile(r"[0-9]+(?:[.+\-eE:_]+[0-9]+)*", re.ASCII)
# A folder for each year, month and day, or for each time of a day, is a date as well. Behind the
# first two characters stands what must not be before them, since plain ones are found much faster.
_DATE = re.compile(
    r"20(?<![0-9]20)[0-9]{2}([-_./]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[-_T]?[0-2][0-9][-_:.h]?[0-5][0-9](?:[-_:.m]?[0-5][0-9])?"
    r"|/[0-2][0-9][-_:.h][0-5][0-9](?:[-_:.m][0-5][0-9])?)?(?![0-9])",
    re.ASCII,
)
# From there on, a word that may be an option or a date.
_MARKED = re.compile(r"(?:-(?<= -)|=|20)[^ ]*")
_MOST_OPTIONS = 128  # and dates, that are looked at
_MOST_CHARS = 4096  # of them


def in_one_line(text: str) -> str:
    """The words of a text between single spaces, with LINE_END where a line ends."""
    text = text.replace("\n", f" {LINE_END} ")
    for space in SPACES:
        if space in text:
            text = text.replace(space, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip(" ")


def same_work(line: str) -> str:
    """The words without numbers that do not change the work: seeds, learning rates, dates."""
    text, room = f" {line} ", _MOST_CHARS
    edits = dict[int, tuple[int, str]]()  # by a word's begin: its end, and what it becomes
    for marked in islice(_MARKED.finditer(text), _MOST_OPTIONS):
        begin, end = text.rfind(" ", 0, marked.start()) + 1, marked.end()
        word = text[begin:end]
        room -= len(word)
        if room < 0:
            break
        name, sign, value = word.partition("=")
        if not _is_idle(name):
            if "20" in word:
                edits[begin] = end, _DATE.sub("#", edits.get(begin, (end, word))[1])
        elif sign:
            edits[begin] = end, f"{name}={_NUMBER.sub('#', value)}"
        elif word[0] == "-" and not text.startswith("--", end + 1) and end + 1 < len(text):
            after = text.find(" ", end + 1)
            edits[end + 1] = after, _NUMBER.sub("#", text[end + 1 : after])
    return _edited(text, edits)[1:-1]


def _edited(text: str, edits: Mapping[int, tuple[int, str]]) -> str:
    parts, done = list[str](), 0
    for begin, (end, new) in edits.items():
        parts += text[done:begin], new
        done = end
    return "".join([*parts, text[done:]])


def without_dates(text: str) -> str:
    """The text with # for each date, with its time where one follows."""
    return _DATE.sub("#", text) if "20" in text else text


@lru_cache(maxsize=1024)  # everybody's options have the same few names
def _is_idle(name: str) -> bool:
    """True for an option or variable that only seeds, names or places a run."""
    option = name.lstrip("-\"'").replace("-", "_").lower()
    if option in _IDLE_NAMES:
        return True
    joint, dot = option.rfind("_"), option.rfind(".")
    if option[max(joint, dot) + 1 :] in _IDLE_ENDS:
        return True
    before = max(option.rfind("_", 0, joint), option.rfind(".", 0, joint))
    return joint > dot and option[before + 1 :] in _IDLE_ENDS  # of two words
