"""README.md and docs/ by the word: their command lines run, as do the examples of manual pages."""

import re
import shlex
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.common.command_facts import EXAMPLES
from slurm_ext.cli.demo.command import _print_table
from slurm_ext.cli.demo.loop import DemoResult, TrainingRow
from tests.cli.predict.test_predict_explain import script, taught
from tests.cli.test_tutorials import PAGES, commands
from tests.manual import GUIDES, ROOT, blocks, lines_to_run, text_of
from tests.simulate.elastic.pollux_folder import write_folder

__all__ = ["script", "taught"]  # fixtures
SHOWN = {line for page in GUIDES for line in lines_to_run(page)}
SAMPLES = {line.partition(" ")[2] for rows in EXAMPLES.values() for line, _ in rows}
WALKED = {command.partition(" ")[2] for page in PAGES for command in commands(page)}
STANDS_FOR = {
    "JOBID": "1042",
    "/usr/local/share/man/man1": "man1",
    "TRACE": "trace.csv --nodes 1",
}
# What needs more than a history: the test that starts it, and the words in which it does.
ELSEWHERE = {
    "control --pairs": ("integration/test_pairing.py", '"--pairs"'),
    "control --pairs status": ("cli/control/test_control_pairs.py", '"--pairs", "status"'),
    "control --queue": ("integration/test_queue_live_real.py", '"--queue"'),
    "control --queue --dry-run": ("cli/control/test_control_queue.py", '"--dry-run"'),
    "control --elastic": ("integration/test_elastic_real.py", '"--elastic"'),
    "control --energy": ("integration/test_energy_real_slurm.py", '"--energy"'),
    "demo": ("integration/a_demo.py", '"demo"'),
    "doctor": ("integration/test_doctor_real.py", '"doctor"'),
    "doctor --nagios": ("cli/doctor/test_doctor_nagios.py", '"--nagios"'),
    "install --dry-run": ("integration/test_install_joined.py", '"--dry-run"'),
    "install files": ("install/test_install_steps.py", '"uninstall", "files"'),
    "profile job.sh": ("integration/test_profile_job.py", '"profile"'),
    "profile --seconds 60 -- python train.py": ("cli/profile/test_profile_run.py", '"profile"'),
    "run --off python train.py": ("cli/run/test_own_runs.py", '"--off"'),
    "serve": ("integration/test_loop.py", "advisor"),
    "uninstall": ("install/test_install_steps.py", '"uninstall"'),
}
SACCT = "JobIDRaw|State|Submit|Start|End|NodeList\n7|COMPLETED|{0}|{0}|{0}|n1\n".format(
    "2026-10-01T10:00:00"
)
NODES = """
[[node]]
name = "small"
gpu = "a100"
gpus = 2
cores = 16
price_per_hour = 3.0
"""


@pytest.fixture
def folder(taught: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history of one run of job.sh, the pages' own files, and settings that name them."""
    for block in blocks(text_of("docs/tutorials/scheduling-researcher.md")):
        if block.title:
            (taught / block.title).write_text(block.text)
    (taught / "demand-gpu.csv").write_text("".join(f"{600 * at},{at % 9},9\n" for at in range(99)))
    write_folder(taught)
    (taught / "jobs.txt").write_text(SACCT)
    (taught / "nodes.toml").write_text(NODES)
    paths = f'state_dir = "{taught}/state"\nsocket = "{taught}/none"\nkill_file = "{taught}/off"\n'
    (taught / "dlqueue.toml").write_text(f"[paths]\n{paths}")
    monkeypatch.setenv("DLQUEUE_CONFIG", str(taught / "dlqueue.toml"))
    monkeypatch.chdir(taught)
    return taught


def test_the_pages_have_command_lines() -> None:
    """The expression that finds them finds them."""
    assert {"explain JOBID", "predict job.sh --what-if", "report --output report.html"} <= SHOWN


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("line", sorted((SHOWN | SAMPLES) - ELSEWHERE.keys() - WALKED))
def test_a_command_line_runs(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Up to a pipe or a redirection, with a job that is there for JOBID and the like."""
    command = re.split(r" [|>] ", line)[0]
    if command == "history import":  # without a file it asks slurmdbd
        command += " jobs.txt"
    for name, thing in STANDS_FOR.items():
        command = command.replace(name, thing)
    assert main(shlex.split(command)) == 0, capsys.readouterr().err


@pytest.mark.parametrize("line", ELSEWHERE)
def test_what_needs_more_is_tested_there(line: str) -> None:
    """The file is there and starts it."""
    assert line in SHOWN | SAMPLES
    file, words = ELSEWHERE[line]
    assert words in (ROOT / "tests" / file).read_text(encoding="utf-8")


def test_the_demo_prints_tables_as_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """With the figures of the page, `dlqueue demo` prints the page's table and lines."""
    shown = blocks(text_of("docs/tutorials/demo.md"))[0].text
    lines = dict(re.findall(r"^  (\w+): (dlqueue: .*)$", shown, re.MULTILINE))
    rows = [
        row("compute_train", (1, 1), (1, 1), (492, 492), (495, 460, 533), lines, left_alone=True),
        row("greedy_train", (8, 2), (8, 8), (676, 661), (682, 630, 735), lines),
        row("jpeg_train", (2, 2), (0, 2), (96.8, 177), (186, 167, 205), lines),
        row("slow_storage_train", (2, 2), (1, 6), (47.0, 144), (146, 138, 153), lines),
    ]
    counts = {"rejected_jobs": 0, "drained_nodes": 0, "records": 8}
    outcome = DemoResult(jobs=rows, **counts, slurm_version="22.05.8", cores=2)
    _print_table(outcome, Path("/tmp/dlqueue-demo-x1y2z3/report.md"))
    assert trimmed(capsys.readouterr().out) == trimmed(shown)


def row(
    name: str,
    cpus: tuple[int, int],
    workers: tuple[int, int],
    rates: tuple[float, float],
    predicted: tuple[float, float, float],
    lines: dict[str, str],
    *,
    left_alone: bool = False,
) -> TrainingRow:
    """One training of the page's table, and what sbatch said of it."""
    return TrainingRow(
        script=f"{name}.sbatch",
        left_alone=left_alone,
        cpus_per_task=cpus,
        num_workers=workers,
        samples_per_s=rates,
        predicted_samples_per_s=predicted[0],
        interval=predicted[1:],
        message=lines[name],
        emulated=True,
    )


def trimmed(text: str) -> list[str]:
    """Its lines, without spaces at their ends."""
    return [line.rstrip() for line in text.splitlines()]
