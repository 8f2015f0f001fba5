"""README.md by the word: its command lines run, and what it says is printed is printed."""

import re
import shlex
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.demo.command import _print_table
from slurm_ext.cli.demo.loop import DemoResult, TrainingRow
from tests.cli.predict.test_predict_explain import script, taught
from tests.manual import ROOT
from tests.simulate.elastic.pollux_folder import write_folder

__all__ = ["script", "taught"]  # fixtures
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = sorted({line for line in re.findall(r"`dlqueue ([^`]+)`", README) if " " in line})
STANDS_FOR = {
    "JOBID": "1042",
    "/usr/local/share/man/man1": "man1",
    "TRACE": "trace.csv --nodes 1",
}
ON_A_REAL_SLURM = {
    "control --pairs": "test_pairing.py",
    "control --queue": "test_queue_live_real.py",
    "control --elastic": "test_elastic_real.py",
    "control --energy": "test_energy_real_slurm.py",
}
SACCT = "JobIDRaw|State|Submit|Start|End|NodeList\n7|COMPLETED|{0}|{0}|{0}|n1\n".format(
    "2026-10-01T10:00:00"
)


def fenced(language: str, after: str) -> str:
    """The first fenced block of that language behind some words of the page."""
    _, _, rest = README.partition(after)
    blocks: list[tuple[str, str]] = re.findall(
        r"^```(\w*)\n(.*?)^```$", rest, re.MULTILINE | re.DOTALL
    )
    return next(text for name, text in blocks if name == language)


@pytest.fixture
def folder(taught: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history of one run of job.sh, the README's own files, and settings that name them."""
    (taught / "trace.csv").write_text(fenced("csv", "### Replay a trace"))
    (taught / "mine.py").write_text(fenced("python", "### Replay a trace"))
    (taught / "demand-gpu.csv").write_text("".join(f"{600 * at},{at % 9},9\n" for at in range(99)))
    write_folder(taught)
    (taught / "jobs.txt").write_text(SACCT)
    paths = f'state_dir = "{taught}/state"\nsocket = "{taught}/none"\nkill_file = "{taught}/off"\n'
    (taught / "dlqueue.toml").write_text(f"[paths]\n{paths}")
    monkeypatch.setenv("DLQUEUE_CONFIG", str(taught / "dlqueue.toml"))
    monkeypatch.chdir(taught)
    return taught


def test_the_page_has_command_lines() -> None:
    """The expression that finds them finds them."""
    assert {"explain JOBID", "predict job.sh --what-if", "report --output report.html"} <= set(
        LINES
    )


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("line", [line for line in LINES if line not in ON_A_REAL_SLURM])
def test_a_command_line_of_the_page_runs(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Up to a pipe or a redirection, with a job that is there for JOBID and the like."""
    command = re.split(r" [|>] ", line)[0]
    if command == "history import":  # without a file it asks slurmdbd
        command += " jobs.txt"
    for name, thing in STANDS_FOR.items():
        command = command.replace(name, thing)
    assert main(shlex.split(command)) == 0, capsys.readouterr().err


@pytest.mark.parametrize("line", ON_A_REAL_SLURM)
def test_what_runs_on_a_real_slurm_only_is_tested_there(line: str) -> None:
    """The file is there and starts it."""
    assert line in LINES
    option = line.partition(" ")[2]
    text = (ROOT / "tests" / "integration" / ON_A_REAL_SLURM[line]).read_text(encoding="utf-8")
    assert f'"{option}"' in text


@pytest.mark.usefixtures("folder")
def test_the_replay_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """The trace, the policy and the table, to the letter but for spaces at ends of lines."""
    (line,) = [line for line in LINES if "mine.py:" in line]
    assert main(shlex.split(line)) == 0
    said = [one.rstrip() for one in capsys.readouterr().out.splitlines() if one.strip()]
    assert said == fenced("", "### Replay a trace").splitlines()


def test_the_demo_prints_tables_as_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """With the figures of the page, `dlqueue demo` prints the page's table and lines."""
    shown = fenced("", "What `make demo` printed")
    lines = dict(re.findall(r"^  (\w+): (dlqueue: .*)$", shown, re.MULTILINE))
    rows = [
        row("compute_train", (1, 1), (1, 1), (515, 514), (515, 491, 540), lines, left_alone=True),
        row("greedy_train", (8, 2), (8, 8), (752, 749), (759, 724, 796), lines),
        row("jpeg_train", (2, 2), (0, 2), (179.6, 413), (415, 386, 446), lines),
        row("slow_storage_train", (2, 1), (1, 7), (48.4, 210), (205, 196, 215), lines),
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
