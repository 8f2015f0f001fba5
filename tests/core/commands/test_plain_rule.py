"""The words of a script's commands, against a plain statement of each rule."""

import re
from itertools import pairwise
from posixpath import join, normpath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurm_ext.core.commands import words
from slurm_ext.core.commands.programs import programs
from slurm_ext.core.commands.words import in_one_line, same_work

SEEDS = "seed|port|lr|wd|learning_?rate|weight_?decay"
RUNS = "out|output|log|logs|logging|save|run|exp|experiment|job|work|wandb|tensorboard|results?"
PLACES = "dir|directory|folder|root|path|file|prefix|name|id|tag|group"
IDLE = re.compile(
    rf"(?:.*[_.])?(?:{SEEDS}|(?:{RUNS})_?(?:{PLACES}))|name|tag|out|output|run|resume|notes"
)
NUMBER = re.compile(r"[0-9]+(?:[.+\-eE:_]+[0-9]+)*")
DATE = re.compile(
    r"(?<![0-9])20[0-9]{2}([-_.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[-_T]?[0-2][0-9][-_:.h]?[0-5][0-9](?:[-_:.m]?[0-5][0-9])?)?(?![0-9])"
)
PLAIN = {
    "training",
    "src",
    "source",
    "code",
    "scripts",
    "script",
    "bin",
    "tools",
    "examples",
    "app",
}
MOST_NAMES = 8  # of a program's path: nobody has more plain folders in each other
PIECES = (
    *("--", "-", "=", "_", ".", "seed", "lr", "learning_rate", "learning.rate", "out", "dir"),
    *("run", "name", "model", "SEED", "1", "0.1", "1e-3", "20", "2026", "01", "'", '"', "x"),
    *("2026-01-02", "20260102T1530", "2026-13-02", "120260102", "résumé", "\udcff", "a" * 70),
)
PATHS = (
    *("train", "src", "code", "..", ".", "~", "$HOME", "2026-01-02", "'", "x;", "&", "a b"),
    *("main.py", "x.py", ".py", "-m", "cd", "pkg.train", "-m -m", "\n", " ", "\t"),
)
line = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
text = st.lists(line | st.sampled_from((" ", "\n", "\t", "\u3000")), max_size=12).map(" ".join)
commands = st.lists(
    st.lists(st.sampled_from(PATHS), max_size=4).map("/".join) | st.sampled_from(PATHS), max_size=12
).map(" ".join)


def split(whole: str) -> list[str]:
    """The words of a text, one by one."""
    return whole.replace("\n", " \0 ").split()


def plainly_same_work(found: list[str]) -> str:
    """Numbers of seeds and of dates out, word by word."""
    kept = list(found)
    for at, word in enumerate(found):
        name, sign, value = word.partition("=")
        if word[0] != "-" and not sign and "20" not in word:
            continue
        if IDLE.fullmatch(name.lstrip("-\"'").replace("-", "_").lower()):
            if sign:
                kept[at] = f"{name}={NUMBER.sub('#', value)}"
            elif word[0] == "-" and found[at + 1 : at + 2] and found[at + 1][:2] != "--":
                kept[at + 1] = NUMBER.sub("#", found[at + 1])
        else:
            kept[at] = DATE.sub("#", kept[at])
    return " ".join(kept)


def plainly_moved(folder: str, path: str) -> str:
    """The folder after `cd path`."""
    path = path.strip("\"';&")
    return normpath(join(folder, path.partition("/")[2] if path[:1] in ("$", "~") else path))


def plainly_within(folder: str, path: str) -> str:
    """The end of a program's path, with as many folders as it takes to name the project."""
    parts = plainly_moved(folder, path).split("/")
    size = 2
    while size < min(MOST_NAMES, len(parts)) and parts[-size] in PLAIN:
        size += 1
    return DATE.sub("#", "/".join(parts[-size:]))


def plain_programs(found: list[str], work_dir: str) -> set[str]:
    """The same of a list of words."""
    pairs = list(pairwise([*found, "\0"]))
    files = {word for word in found if word.endswith(".py")}
    modules = {after for word, after in pairs if word == "-m" and after != "\0"} - files
    if not files and not modules:
        return set()
    folder = work_dir
    for word, after in pairs:
        folder = plainly_moved(folder, after) if word == "cd" and after != "\0" else folder
    named = {plainly_within(folder, one) for one in files | {m for m in modules if "." not in m}}
    return named | {module for module in modules if "." in module}


def test_every_space_parts_words() -> None:
    """The table has what str.split parts words at, but the space itself and the line's end."""
    every = {chr(code) for code in range(0x110000) if chr(code).isspace()}
    assert set(words.SPACES) == every - {" ", "\n"}
    assert len(words.SPACES) == len(set(words.SPACES))


@given(text)
@example("--seed 1 --seed\n2")
@example("--learning.rate 0.1 --x_learning-rate=0.1")
@example(" ".join(["--seed=1"] * 90))
def test_numbers_that_change_no_work_go(whole: str) -> None:
    """Word by word or as one text: the same numbers go."""
    assert same_work(in_one_line(whole)) == plainly_same_work(split(whole))


@given(commands, st.lists(st.sampled_from(PATHS), max_size=4).map("/".join))
@example("x.py", "")
@example("x.py", "/")
@example("/x.py ../y.py", "//srv")
@example("-m -m one", "a/..")
def test_programs_are_found(whole: str, work_dir: str) -> None:
    """Word by word or as one text: the same programs are named."""
    assert programs(in_one_line(whole), work_dir) == plain_programs(split(whole), work_dir)


@pytest.mark.parametrize("size", [63, 64, 65, 500])
def test_an_options_name_is_read_whole(size: int) -> None:
    """However long it is, its end says what it names."""
    name = f"--{'x' * size}"
    assert same_work(f"{name}-seed 1") == f"{name}-seed #"
    assert same_work(f"{name}seed 1") == f"{name}seed 1"
