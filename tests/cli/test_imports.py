"""A user waits for each module that a command imports: they are counted here, and not timed."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHOWS = """
import sys
from slurm_ext.cli import main
status = main(sys.argv[1:])
print(*sys.modules)
sys.exit(status)
"""
# What takes longer to import than a bare Python to start, or a good part of that.
HEAVY = {
    "argparse",
    "asyncio",
    "click",
    "concurrent.futures",
    "dataclasses",
    "datetime",
    "decimal",
    "hashlib",
    "inspect",
    "jinja2",
    "logging",
    "matplotlib",
    "numpy",
    "pathlib",
    "plotext",
    "prometheus_client",
    "random",
    "rich",
    "socket",
    "sqlite3",
    "sqlite_utils",
    "statistics",
    "subprocess",
    "tempfile",
    "threading",
    "tomllib",
    "torch",
    "typing",
    "urllib.parse",
}
BEFORE_A_PROGRAM = {
    "slurm_ext",
    "slurm_ext.advisor",
    "slurm_ext.advisor.own_runs",
    "slurm_ext.advisor.own_runs.own_history",
    "slurm_ext.advisor.own_runs.settled",
    "slurm_ext.cli",
    "slurm_ext.cli.common",
    "slurm_ext.cli.common.commands",
    "slurm_ext.cli.common.parsers",
    "slurm_ext.cli.common.streams",
    "slurm_ext.cli.run",
    "slurm_ext.cli.run.child",
    "slurm_ext.cli.run.command",
    "slurm_ext.cli.run.probed",
    "slurm_ext.core",
    "slurm_ext.core.errors",
    "slurm_ext.core.settings",
    "slurm_ext.core.settings.own",
    "slurm_ext.node",
    "slurm_ext.node.common",
    "slurm_ext.node.common.job",
}
AFTER_IT = {
    "slurm_ext.cli.run.advice",
    "slurm_ext.cli.run.end_line",
    "slurm_ext.node.common.files",
    "slurm_ext.node.common.log",
    "slurm_ext.node.common.removal",
    "slurm_ext.node.record",
    "slurm_ext.node.record.bounds",
    "slurm_ext.node.record.fields",
    "slurm_ext.node.record.summaries",
    "slurm_ext.questions",
    "slurm_ext.questions.explain",
    "slurm_ext.questions.explain.probe",
}


@cache
def bare() -> frozenset[str]:
    """Modules of a Python that does nothing."""
    code = "import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


def brought(home: Path, *words: str, status: int = 0) -> set[str]:
    """Those that a command of dlqueue has beside them at its end."""
    kept = {name: value for name, value in os.environ.items() if "DLQUEUE" not in name}
    done = subprocess.run(
        [sys.executable, "-c", SHOWS, *words],
        cwd=ROOT,
        env={**kept, "XDG_STATE_HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    return set(done.stdout.splitlines()[-1].split()) - bare()


def foreign(found: set[str]) -> set[str]:
    """Top packages that are neither Python's nor ours."""
    known = {
        *sys.stdlib_module_names,
        "slurm_ext",
        "org",
    }  # Jython's, for copy
    return {name.partition(".")[0] for name in found} - known


def ours(found: set[str]) -> set[str]:
    """Modules of dlqueue."""
    return {name for name in found if name.partition(".")[0] == "slurm_ext"}


def test_run_brings_next_to_nothing_along(tmp_path: Path) -> None:
    """A program of nothing pays for these modules alone; a new one has to be wanted here."""
    found = brought(tmp_path, "run", "--", sys.executable, "-c", "pass")
    assert ours(found) == BEFORE_A_PROGRAM | AFTER_IT
    assert not found & HEAVY
    assert not foreign(found)


def test_run_starts_the_program_before_it_imports_for_its_end(tmp_path: Path) -> None:
    """What cannot be started shows what came before, and what removes its folder."""
    brought(tmp_path, "run", "/nowhere/train", status=127)  # makes the folder and its settings
    found = brought(tmp_path, "run", "/nowhere/train", status=127)
    removal = {"slurm_ext.node.common.removal", "slurm_ext.node.common.files"}
    assert ours(found) == BEFORE_A_PROGRAM | removal
    assert not found & {*HEAVY, "json", "re"}


def test_a_longer_program_has_its_end_prepared(tmp_path: Path) -> None:
    """Meanwhile, so that nobody waits for it; and nothing heavy is among it."""
    nap = "import time; time.sleep(1.5)"
    found = brought(tmp_path, "run", sys.executable, "-c", nap)
    assert "slurm_ext.core.stalls.step_split" in found
    assert not found & {"numpy", "matplotlib", "rich", "sqlite3", "statistics", "torch"}
    assert not foreign(found)
