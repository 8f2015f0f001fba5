"""`dlqueue run`: the program stays what it is, and its run is the user's own."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.own_runs import settled
from slurm_ext.advisor.own_runs.own_history import ARRIVED, folder, keep, take_in
from slurm_ext.cli.common.settings import load_for_history
from slurm_ext.cli.run.advice import advice, first_of
from slurm_ext.core.errors import HistoryError
from slurm_ext.core.settings.document import load
from slurm_ext.history.store.store import open_history
from slurm_ext.node.common.job import PROBE_SITE
from tests.cli.run.conftest import ROOT, Home
from tests.whole import QUICK_TORCH

SLEEPY = (
    QUICK_TORCH
    + """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Far(Dataset):
    def __len__(self): return 1024
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.zeros(8)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in DataLoader(Far(), 16):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""
)


def test_a_training_is_measured_kept_and_known_to_predict(home: Home, tmp_path: Path) -> None:
    """One run, and `explain`, `history` and `predict` answer without a word of configuration."""
    (tmp_path / "train.py").write_text(SLEEPY)
    command = [sys.executable, str(tmp_path / "train.py")]
    done = home.dlqueue("run", *command, DLQUEUE_AUTOTUNE="0")
    assert done.returncode == 0
    assert "samples/s with 0 workers" in done.stderr
    assert done.stderr.rstrip().endswith("; dlqueue explain 1")
    outcome = home.document("explain", "1")["runs"][0]  # type: ignore[index]  # a list of runs
    assert outcome["state"] == "COMPLETED"
    assert outcome["loader_samples_per_s"] > 0
    job = tmp_path / "job.sh"
    job.write_text(f"#!/bin/sh\n#SBATCH -c 2\n{' '.join(command)}\n")
    assert home.document("predict", str(job))["runs"] == 1


def test_a_long_run_ends_with_what_would_make_it_faster(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader that sleeps in the training process is worth workers; a short run says nothing."""
    (tmp_path / "train.py").write_text(SLEEPY)
    words = ("run", "--quiet", sys.executable, str(tmp_path / "train.py"))
    done = home.dlqueue(*words, DLQUEUE_AUTOTUNE="0")
    assert (done.returncode, done.stderr) == (0, "")
    own = home.state / "dlqueue"
    document = json.loads((own / ARRIVED / "1.json").read_text())
    document["record"]["times"]["elapsed_s"] = 1.0
    assert first_of(document) == []
    document["record"]["times"]["elapsed_s"] = 3600.0
    assert first_of(document) == []
    _lengthen(document["record"], 100)
    monkeypatch.setenv("XDG_STATE_HOME", str(home.state))
    told = advice(str(own), document, first_of(document))
    assert told is not None
    assert told.startswith("num_workers 0 -> ")


def _lengthen(record: dict[str, Any], times: int) -> None:
    """The same training for so many times as long."""
    summary = record["probe"]["summaries"][0]
    for phase in summary["loaders"][0]["phases"]:
        for name, value in phase.items():
            if isinstance(value, int | float) and not name.startswith(("workers", "fetch_p")):
                phase[name] = value * times


@pytest.mark.parametrize(("code", "status"), [("exit(0)", 0), ("exit(3)", 3), ("1/0", 1)])
def test_its_exit_status_and_output_are_the_programs(home: Home, code: str, status: int) -> None:
    """What it prints arrives byte for byte, and nothing of ours is among it."""
    program = f"import sys; print('out'); sys.stdin.read(); {code}"
    done = home.dlqueue("run", "--quiet", sys.executable, "-c", program)
    assert (done.returncode, done.stdout) == (status, "out\n")
    assert "dlqueue" not in done.stderr


def test_a_reader_that_cannot_read_changes_no_exit_status(home: Home) -> None:
    """Nor does a folder that the program removes below itself; the run is kept."""
    words = f"{sys.executable} -m slurm_ext.cli run sh -c 'rmdir \"$PWD\"; exit 3' 2> /dev/full"
    gone = home.tmp / "gone"
    gone.mkdir()
    env = {**home.env, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(["sh", "-c", words], cwd=gone, env=env).returncode == 3
    (kept,) = (home.state / "dlqueue" / ARRIVED).iterdir()
    assert json.loads(kept.read_text())["record"]["identity"]["work_dir"] == str(gone)


def test_what_fails_meanwhile_leaves_the_program_alone() -> None:
    """Its end is waited for, and its status is its own."""
    code = (
        "import os; from slurm_ext.cli.run import child; child.LEISURE_S = 0.01;"
        "started = child.Child(['sh', '-c', 'sleep 0.3; exit 3'], dict(os.environ));"
        "print(os.waitstatus_to_exitcode(started.wait(lambda: 1 / 0, lambda: 1 / 0)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("3\n", "")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ((), 2, "name the program to run"),
        (("--quiet", "--"), 2, "name the program to run"),
        (("--loud", "true"), 2, "--loud"),
        (("--qui", "sh", "-c", "exit 3"), 3, ""),
        (("--json", "--quiet", "--", "sh", "-c", "exit 3"), 3, ""),
        (("--config", "/nowhere", "sh", "-c", "exit 3"), 3, "not measured"),
    ],
)
def test_options_are_those_of_the_parser(
    home: Home, words: tuple[str, ...], status: int, said: str
) -> None:
    """Whether they are plain, shortened or wrong, and whoever reads them."""
    done = home.dlqueue("run", *words)
    assert done.returncode == status
    assert said in done.stderr
    assert bool(done.stderr) == bool(said)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT])
def test_a_signal_reaches_the_program_once(home: Home, number: int) -> None:
    """Whoever signals the command means the program, which may handle it."""
    program = (
        "import signal, time\nseen = []\n"
        f"signal.signal({number}, lambda *_: seen.append(1))\n"
        "print('ready', flush=True)\nwhile not seen: time.sleep(0.01)\n"
        "time.sleep(0.1); print(len(seen))"
    )
    words = [sys.executable, "-m", "slurm_ext.cli", "run", "--quiet", sys.executable, "-c", program]
    with subprocess.Popen(words, cwd=ROOT, env=home.env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.read() == b"1\n"
    assert process.returncode == 0


def test_a_program_that_a_signal_ends_takes_the_command_with_it(home: Home) -> None:
    """A shell or Slurm sees what it would see without us; the run is kept as failed."""
    done = home.dlqueue("run", "sh", "-c", "kill -TERM $$")
    assert done.returncode == -signal.SIGTERM
    assert home.document("explain", "1")["runs"][0]["state"] == "FAILED"  # type: ignore[index]  # a list of runs


@pytest.mark.parametrize(("name", "status"), [("/nowhere/train", 127), (str(ROOT), 126)])
def test_what_cannot_start_ends_as_in_a_shell(home: Home, name: str, status: int) -> None:
    """The message names the program; there is no run of it."""
    done = home.dlqueue("run", name)
    assert done.returncode == status
    assert name in done.stderr
    assert not list((home.state / "dlqueue" / ARRIVED).iterdir())
    assert not list(home.tmp.iterdir())


def test_a_search_begins_where_the_last_one_stayed(home: Home) -> None:
    """The same words in the same folder are the same program; the user's own word comes first."""
    show = "import os; print(*map(os.environ.get, ('DLQUEUE_AUTOTUNE', 'DLQUEUE_NUM_WORKERS')))"
    words = [sys.executable, "-c", show]
    assert home.dlqueue("run", *words).stdout == "1 None\n"
    loader = {"tuned": {"workers": 3}, "phases": [{"samples": 9}]}
    searched = [{"loaders": [loader]}]
    settled.remember(str(home.state / "dlqueue"), words, str(ROOT), searched)
    assert home.dlqueue("run", *words).stdout == "1 3\n"
    own = {"DLQUEUE_AUTOTUNE": "0", "DLQUEUE_NUM_WORKERS": "2"}
    assert home.dlqueue("run", *words, **own).stdout == "0 2\n"
    assert home.dlqueue("run", *words, "more").stdout == "1 None\n"


@pytest.mark.parametrize("text", ["", "[]", '{"a": true}', '{"a": 0}', '{"a": "2"}', "\xff" * 9])
def test_a_damaged_memory_of_searches_is_none(tmp_path: Path, text: str) -> None:
    """The program then starts from its own setting."""
    (tmp_path / settled.NAME).write_text(text.replace("a", settled.key_of(["a"], "/")))
    assert settled.settled_workers(str(tmp_path), ["a"], "/") is None


SHOW = "import os; print(os.environ.get('DLQUEUE_RUN_DIR'), os.environ.get('PYTHONPATH'))"


IMAGE = """#!/bin/sh
export PYTHONPATH="${PYTHONPATH:-"$SOURCES"}"
shift 2 && exec "$@"
"""


def test_an_image_keeps_its_own_path(home: Home, tmp_path: Path) -> None:
    """Apptainer's has one that holds where there is none: its program finds what it imports.

    Nothing is measured then, which a line says; with a PYTHONPATH of the user's it is.
    """
    (tmp_path / "of_the_image.py").write_text("")
    apptainer = tmp_path / "apptainer"
    apptainer.write_text(IMAGE)
    apptainer.chmod(0o755)
    words = ["exec", "x.sif", sys.executable, "-c", "import of_the_image"]
    bare = {"SOURCES": str(tmp_path), "PYTHONPATH": ""}
    done = home.dlqueue("run", str(apptainer), *words, **bare)
    assert (done.returncode, done.stderr.count("not measured")) == (0, 1), done.stderr
    assert not home.state.exists()
    done = home.dlqueue("run", str(apptainer), *words, **{**bare, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert home.state.exists()


def test_off_runs_it_bare(home: Home) -> None:
    """Not even the environment differs."""
    done = home.dlqueue("run", "--off", sys.executable, "-c", SHOW, PYTHONPATH=str(ROOT))
    assert done.stdout == f"None {ROOT}\n"
    assert not home.state.exists()


def test_where_the_site_measures_a_job_nothing_is_counted_twice(home: Home, tmp_path: Path) -> None:
    """The site's run folder stays the program's."""
    done = home.dlqueue("run", sys.executable, "-c", SHOW, DLQUEUE_RUN_DIR=str(tmp_path))
    assert done.stdout.startswith(str(tmp_path))
    assert not home.state.exists()


def test_the_probe_comes_first_on_the_users_own_path(home: Home) -> None:
    """What the user has on PYTHONPATH stays there."""
    done = home.dlqueue("run", sys.executable, "-c", SHOW, PYTHONPATH=str(ROOT))
    assert done.stdout.rstrip().endswith(f"{PROBE_SITE}:{ROOT}")
    assert not list(home.tmp.iterdir())


def test_a_home_that_cannot_be_written_keeps_no_program_from_running(home: Home) -> None:
    """The history is worth less than the run."""
    home.state.write_text("a file where a folder should be")
    done = home.dlqueue("run", sys.executable, "-c", "print('ran')")
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "not measured" in done.stderr


def test_runs_that_end_together_have_numbers_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run takes another one's place, and what nobody wrote is left out."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("DLQUEUE_CONFIG", raising=False)
    own = Path(folder())
    documents = [{"command": "x", "record": {"identity": {"node": "n"}}} for _ in range(3)]
    assert [keep(str(own), document) for document in documents] == [1, 2, 3]
    assert load(own / "dlqueue.toml").state_dir == own


def test_what_serves_or_acts_does_not_read_a_users_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's own runs make no site of a machine: only commands that read a history take them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("DLQUEUE_CONFIG", raising=False)
    own = Path(folder())
    assert load_for_history(None).state_dir == own
    assert load().state_dir != own


def test_an_empty_variable_makes_no_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`DLQUEUE_CONFIG= dlqueue jobs` reads the user's own runs, as without the variable."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DLQUEUE_CONFIG", "")
    own = Path(folder())
    assert load_for_history(None).state_dir == own


@pytest.mark.parametrize(
    "words", [["jobs"], ["explain", "1"], ["history", "ls"], ["history", "export"], ["report"]]
)
def test_before_a_first_run_the_answer_is_to_run_something(home: Home, words: list[str]) -> None:
    """Without a site, a place that only root can write is no answer."""
    done = home.dlqueue(*words)
    assert done.returncode == 1
    assert "your first `dlqueue run python train.py` creates it" in done.stderr
    assert str(home.state) in done.stderr
    assert "/var/lib" not in done.stderr


def test_training_takes_the_users_own_history(home: Home) -> None:
    """Models are fitted to the runs that `predict` and `explain` know, and kept beside them."""
    assert "your first `dlqueue run" in home.dlqueue("train").stderr
    home.dlqueue("run", "--quiet", "true")
    done = home.dlqueue("train")
    assert (done.returncode, "too few" in done.stdout) == (0, True), done.stderr
    assert (home.state / "dlqueue" / ".training-succeeded").exists()


def test_doctor_says_where_the_runs_are_kept(home: Home) -> None:
    """A user without a site learns that nothing else is needed; one without a folder, what is."""

    def finding() -> dict[str, str]:
        findings: Any = home.document("doctor")["findings"]
        return next(each for each in findings if each["name"] == "dlqueue run")

    assert finding()["status"] == "ok"
    assert str(home.state / "dlqueue") in finding()["seen"]


def test_a_program_that_trains_nothing_is_told_why_it_has_no_figure(home: Home) -> None:
    """Its run is kept; a task of it, as of an array, is not known."""
    done = home.dlqueue("run", "true")
    assert "no training that dlqueue knows (PyTorch, TensorFlow, JAX); dlqueue explain 1" in (
        done.stderr
    )
    task = home.dlqueue("explain", "1_2")
    assert task.returncode == 1
    assert "knows nothing of 1_2: 1 is no array; see `dlqueue explain 1`" in task.stderr
    assert home.dlqueue("explain", "1").returncode == 0


def test_a_history_that_cannot_be_opened_lets_runs_wait_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer dlqueue of the same home wrote it: each command would leave all runs once more."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own = Path(folder())
    with open_history(own / "history.db") as history, history.transaction() as conn:
        conn.execute("INSERT INTO migrations VALUES ('tomorrow', 1)")
    keep(str(own), {"command": "x", "record": {"identity": {"node": "n"}}})
    before = sorted(path for path in own.rglob("*") if "history.db" not in path.name)
    for _ in range(2):
        with pytest.raises(HistoryError):
            take_in(own)
        assert sorted(p for p in own.rglob("*") if "history.db" not in p.name) == before
