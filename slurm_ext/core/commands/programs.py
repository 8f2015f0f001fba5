"""Programs of a script's commands: Python files by their path within the project, and modules."""

import re
from collections.abc import Iterator
from functools import lru_cache, reduce
from itertools import islice
from posixpath import normpath

from slurm_ext.core.commands.words import LINE_END, without_dates

_MOST_PROGRAMS = 64  # files, and as many modules, in the order in which they are named
_MOST_AWAY = 16  # of them that are named by a path, whose folders have to be worked out
_MOST_FOLDERS = 32  # `cd`s that are followed
_MOST_PATH_CHARS = 512  # from its end: a folder's and a file's name are never longer
_MOST_NAMES = 7  # of the folders that a program's path begins with
_MOST_NAME_CHARS = 255  # no file system has longer names
_BELOW = re.compile(r"[^/~$\"';&]+")  # a name in the folder itself
_PLAIN_FOLDERS = frozenset(
    ("src", "source", "code", "scripts", "script", "bin", "tools", "examples", "app", "training")
)
# Modules that run whatever they are given: a notebook, tests, a function in a pickle.
_RUNNERS = frozenset(
    ("IPython", "jupyter", "nbconvert", "papermill", "pytest", "submitit.core._submit")
)
# A word that follows the other one on its line.
_MODULE, _FOLDER = (re.compile(rf" {word}(?= (?!{LINE_END} )([^ ]+) )") for word in ("-m", "cd"))


def programs(line: str, work_dir: str) -> set[str]:
    """Python files and modules that the commands mention; `line` is of `in_one_line`.

    A path ends with the file and its folder, and goes on where that folder's name is everybody's:
    mnist/main.py, unet/src/train.py. Every `cd` is followed: what it leads to is the project.
    Where modules are named that run others, nobody knows which.
    """
    text = f" {line} "
    files = dict.fromkeys(islice(_words_before(text, ".py "), _MOST_PROGRAMS))
    modules = dict.fromkeys(_followers(_MODULE, text, _MOST_PROGRAMS)).keys() - files.keys()
    if not files and modules <= _RUNNERS:
        return set()
    moves = _followers(_FOLDER, text, _MOST_FOLDERS)
    start = normpath(work_dir[-_MOST_PATH_CHARS:])
    folder = without_dates(reduce(_moved, moves, start))
    paths = [*files, *sorted(module for module in modules if "." not in module)]
    below = set(filter(_BELOW.fullmatch, paths))  # most: the folder is named once
    away = islice((path for path in paths if path not in below), _MOST_AWAY)
    above = "" if folder == "." else f"{_project(folder)}/"
    named = {above + without_dates(path) for path in below}
    named |= {_within(folder, without_dates(path)) for path in away}
    return named | {module for module in modules if "." in module}


def _words_before(text: str, end: str) -> Iterator[str]:
    """Words that end like this, in a text whose words stand between single spaces."""
    at = text.find(end)
    while at >= 0:
        yield text[text.rfind(" ", 0, at) + 1 : at + len(end) - 1]
        at = text.find(end, at + 1)


def _followers(pattern: re.Pattern[str], text: str, most: int) -> Iterator[str]:
    return (match[1] for match in islice(pattern.finditer(text), most))


def _moved(folder: str, path: str) -> str:
    """The folder after `cd path`; a leading variable or ~ is left out. `folder` is normalised."""
    path = path[-_MOST_PATH_CHARS:].strip("\"';&")
    if path[:1] in ("$", "~"):
        path = path.partition("/")[2]
    whole = path if path[:1] == "/" else f"{folder}/{path}"
    return normpath(whole)[-_MOST_PATH_CHARS:]


def _within(folder: str, path: str) -> str:
    """The end of a program's path that names its project."""
    above, slash, name = _moved(folder, path).rpartition("/")
    return f"{_project(above)}{slash}{name}"


@lru_cache(maxsize=64)  # most programs of a script lie in one folder
def _project(folder: str) -> str:
    """The folder's own name, with those above it where it is everybody's."""
    names = folder.rsplit("/", _MOST_NAMES)
    size = 1
    while size < min(len(names), _MOST_NAMES) and names[-size] in _PLAIN_FOLDERS:
        size += 1
    return "/".join([name[-_MOST_NAME_CHARS:] for name in names[-size:]])
