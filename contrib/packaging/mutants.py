"""Run a mutation tool (mutmut) over one room: a change that no test notices is a missing test.

    make mutants ROOM=policy              # all of it; stopped and begun again, it goes on
    make mutants ROOM=policy SAMPLE=300          # so many mutants, drawn at random
    make mutants ROOM=policy SAMPLE=300 SEED=2   # others: the share of mutants that nobody has seen

The room is copied to build/mutants/ROOM and mutated there. A mutant that the room's tests do not
notice survives. Survivors that change nothing are listed with their reason in
contrib/packaging/equivalent_mutants.toml; every other one is a test that is missing. Prints one
JSON object: killed, survived, equivalent, share (of those that are not equivalent), and the names
of survivors. Exit status 1 where the share is below 0.85.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("equivalent_mutants.toml")
ROOMS = ("policy", "model", "core", "history", "control", "advisor")
WANTED = 0.85
COPIED = ("tests", "site_config", "contrib", "job_templates", "README.md", "INSTALL.md")
CONFIG = """
[tool.mutmut]
source_paths = ["slurm_ext"]
only_mutate = ["slurm_ext/{room}/**"]
do_not_mutate = {left_out}
pytest_add_cli_args_test_selection = ["tests/{room}"]
pytest_add_cli_args = [
    "-m", "not slurm and not root and not long and not journey", "-p", "no:cacheprovider",
    "--hypothesis-profile", "ci",
]
also_copy = {copied}
"""
# A wrong change of these, tested by root, gives files to others or moves processes: left out then.
HARMFUL = ["slurm_ext/core/ownership.py", "slurm_ext/control/allocator/cgroup/*"]
# Exit statuses of a mutant's test run, as mutmut keeps them.
SURVIVED = (0, 5, 33)  # 5, 33: no test enters the function
NOT_TESTED = (None, 2, 34)  # not yet, interrupted, left out


def main() -> int:
    """Copy, mutate, test, and tell the share of mutants that tests notice."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--sample", type=int, default=0, help="mutants to draw (0: all of them)")
    parser.add_argument("--seed", type=int, default=0, help="another one draws other mutants")
    parser.add_argument("--children", type=int, default=2, help="mutants tested at once")
    args = parser.parse_args()
    folder = ROOT / "build" / "mutants" / args.room
    copy_tree(folder, args.room)
    if args.sample and not statuses(folder):
        mutmut(folder, args.children, ["no.such.mutant"])  # makes the mutants and the statistics
    names = draw(folder, args.sample, args.seed) if args.sample else []
    mutmut(folder, args.children, names)
    summary = summarise(folder, set(names))
    print(json.dumps(summary))
    return 0 if summary["share"] >= WANTED else 1


def copy_tree(folder: Path, room: str) -> None:
    """Bring the tracked files into `folder`; the mutants that are there stay."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        source, target = ROOT / name, folder / name
        if not source.is_file():
            continue
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    left_out = json.dumps(HARMFUL if os.geteuid() == 0 else [])
    copied = json.dumps([*COPIED, "constraints.txt"])
    config = CONFIG.format(room=room, copied=copied, left_out=left_out)
    pyproject = (ROOT / "pyproject.toml").read_text() + config
    (folder / "pyproject.toml").write_text(pyproject)


def mutmut(folder: Path, children: int, names: list[str]) -> None:
    """Test these mutants (none named: all that were not tested yet)."""
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(children), *names]
    subprocess.run(command, cwd=folder, stdout=sys.stderr, check=False)


def statuses(folder: Path) -> dict[str, int | None]:
    """Exit status of each mutant's tests by its name; None: not tested yet."""
    found: dict[str, int | None] = {}
    for meta in (folder / "mutants").rglob("*.meta"):
        found |= json.loads(meta.read_text())["exit_code_by_key"]
    return found


def draw(folder: Path, count: int, seed: int) -> list[str]:
    """So many mutants, the same ones each time with one seed."""
    names = sorted(statuses(folder))
    return random.Random(seed).sample(names, min(count, len(names)))


def summarise(folder: Path, only: set[str]) -> dict[str, object]:
    """Counts and survivors of the tested mutants (of `only`, where some are named)."""
    tested = {
        name: status
        for name, status in statuses(folder).items()
        if status not in NOT_TESTED and (not only or name in only)
    }
    survivors = sorted(name for name, status in tested.items() if status in SURVIVED)
    reasons = equivalents()
    same = [name for name in survivors if change_of(folder, name) in reasons]
    killed, lived = len(tested) - len(survivors), len(survivors) - len(same)
    return {
        "killed": killed,
        "survived": lived,
        "equivalent": len(same),
        "share": killed / max(1, killed + lived),
        "survivors": [name for name in survivors if name not in same],
    }


def change_of(folder: Path, name: str) -> tuple[str, str, str]:
    """The function, the line before and the line after."""
    command = [sys.executable, "-m", "mutmut", "show", name]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
    before, after = (
        "\n".join(
            line[1:].strip()
            for line in shown.splitlines()
            if line.startswith(sign) and not line.startswith(sign * 3)
        )
        for sign in "-+"
    )
    return name.partition("__mutmut_")[0], before, after


def equivalents() -> dict[tuple[str, str, str], str]:
    """Changes that are known to change nothing, and why."""
    rows = tomllib.loads(LISTED.read_text()).get("mutant", [])
    return {(row["function"], row["before"], row["after"]): row["why"] for row in rows}


if __name__ == "__main__":
    sys.exit(main())
