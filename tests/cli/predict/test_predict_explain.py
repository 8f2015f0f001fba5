"""`dlqueue predict` and `dlqueue explain` as people start them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli.predict.text import lines, plot, sharing, show
from slurm_ext.core.advice.words import LIMITS
from slurm_ext.core.job_keys import keys_of
from slurm_ext.history.ingest.decisions import record_proposals
from slurm_ext.history.ingest.proposals import Proposal
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history

GOLDEN = Path(__file__).parents[2] / "golden" / "spool" / "v1.json"
TOKEN = "d1-0123456789abcdef"
SCRIPT = "#!/bin/bash\n#SBATCH -c 2 --mem=4G\npython3 train.py\n"


def dlqueue(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command with settings that name only files under `folder`."""
    config = folder / "dlqueue.toml"
    if not config.exists():
        paths = {"state_dir": "state", "socket": "none.sock", "kill_file": "off"}
        said = "".join(f'{name} = "{folder / path}"\n' for name, path in paths.items())
        config.write_text(f'[site]\nmode = "act"\n[paths]\n{said}')
    command = [sys.executable, "-m", "slurm_ext.cli", *words, "--config", str(config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A batch script."""
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def taught(tmp_path: Path, script: Path) -> Path:
    """A state folder with one run of the script, and the decision before it."""
    from slurm_ext.cli.predict.script_file import submission
    from slurm_ext.core.records import Decision, Mode, Shape

    shape = Shape(cpus_per_task=2, num_workers=0)
    proposal = Proposal(
        token=TOKEN,
        decided_s=1_759_999_999.0,
        mode=Mode.ACT,
        user="ada",
        uid=1000,
        job_name="train.sh",
        decision=Decision(action="leave", reason="not known", before=shape, after=shape),
        keys=keys_of(submission(str(script), ())),
    )
    spool = tmp_path / "state" / "spool"
    spool.mkdir(parents=True)
    (spool / "cluster-1042-0-n1.json").write_bytes(GOLDEN.read_bytes())
    with open_history(tmp_path / "state" / "history.db") as history:
        record_proposals(history, [proposal], "a.jsonl", 1)
        ingest_folder(history, spool, now_s=1_760_000_100.0)
    return tmp_path


def predicted(folder: Path, script: Path) -> dict[str, Any]:
    """What `predict --json` prints."""
    done = dlqueue("predict", str(script), "--json", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_without_slurm_and_history_it_says_that_it_does_not_know(
    tmp_path: Path, script: Path
) -> None:
    """No evidence is an honest answer with exit 0, not an error."""
    assert predicted(tmp_path, script)["why"] == "I do not know yet: no runs like this one"
    done = dlqueue("predict", str(script), folder=tmp_path)
    assert done.returncode == 0
    assert "I do not know yet: no runs like this one" in done.stdout


def test_from_history_it_says_what_why_and_on_which_evidence(taught: Path, script: Path) -> None:
    """With no advisor running, the history's file answers, with interval, level and curve."""
    said = predicted(taught, script)
    assert (said["v"], said["source"], said["mode"]) == (1, "history", "act")
    assert (said["level"], said["runs"]) == ("same script and arguments", 1)
    low, high = said["predicted_after"]["interval"]
    assert 0 < low <= said["predicted_after"]["samples_per_s"] <= high
    assert [point["num_workers"] for point in said["curve"]] == list(range(len(said["curve"])))
    assert "DLQUEUE_DECISION" not in said["proposed"].get("env", {})
    most, knee = said["maximum"], said["knee"]
    assert most["low"] <= most["samples_per_s"] <= most["high"]
    assert 0.95 * most["samples_per_s"] <= knee["samples_per_s"] <= most["samples_per_s"] * 1.01
    assert said["bottleneck"] in LIMITS
    assert said["next"]


def test_people_see_the_interval_the_evidence_and_the_curve(taught: Path, script: Path) -> None:
    """The same answer as text, with a plot of samples/s over workers."""
    done = dlqueue("predict", str(script), folder=taught)
    assert (done.returncode, done.stderr) == (0, "")
    parts = ("samples/s (", "same script and arguments", "samples/s over workers")
    for part in (*parts, "maximum:", "next:"):
        assert part in done.stdout


def test_other_arguments_are_other_evidence(taught: Path, script: Path) -> None:
    """`predict job.sh -- --lr 1` is the same script, not the same run."""
    done = dlqueue("predict", "--json", str(script), "--", "--lr", "1", folder=taught)
    # argparse leaves --config behind the -- to the script: the settings' defaults answer then.
    assert done.returncode == 0
    assert json.loads(done.stdout)["script"] == str(script)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"python train.py\n", "has to begin with #!"),
        (b"#!/bin/sh\n#SBATCH -c few\n", "job.sh:2: --cpus-per-task: 'few' is not a positive"),
        (b"#!/bin/sh\n\0\n", "NUL byte"),
        (b"#!/bin/sh\r\n#SBATCH -c 4\r\n", "DOS line breaks"),
        (b"#!/bin/sh\n" + b"#" * (4 << 20), "larger than 4194304 bytes"),
        (None, "cannot be read"),
    ],
)
def test_a_script_that_is_none_is_refused_in_one_line(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    """The error names file, line and what is wrong; nothing is on stdout."""
    path = tmp_path / "job.sh"
    if content is not None:
        path.write_bytes(content)
    done = dlqueue("predict", str(path), folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_bytes_of_another_encoding_are_no_error(tmp_path: Path) -> None:
    """A script is bytes; a comment in Latin-1 changes nothing."""
    path = tmp_path / "job.sh"
    path.write_bytes(b"#!/bin/sh\n# caf\xe9\npython train.py caf\xe9\n")
    assert predicted(tmp_path, path)["action"] == "leave"
    assert dlqueue("predict", str(path), folder=tmp_path).returncode == 0


def test_a_damaged_history_is_named_not_hidden(taught: Path, script: Path) -> None:
    """Evidence that cannot be read is an error, not "I do not know"."""
    for path in (taught / "state").glob("history.db*"):
        path.write_bytes(b"not a database at all, not at all" * 100)
    done = dlqueue("predict", str(script), folder=taught)
    assert done.returncode == 1
    assert "history.db" in done.stderr


def test_explain_tells_belief_deed_and_outcome(taught: Path) -> None:
    """By job id and by token, for people and for programs."""
    by_token = dlqueue("explain", TOKEN, "--json", folder=taught)
    by_job = dlqueue("explain", "1042", "--json", folder=taught)
    assert by_token.stdout == by_job.stdout
    said = json.loads(by_job.stdout)
    assert (said["job_id"], said["decision"]["token"]) == (1042, TOKEN)
    (run,) = said["runs"]
    assert run["state"] == "COMPLETED"
    assert run["loader_samples_per_s"] > 0
    text = dlqueue("explain", "1042", folder=taught).stdout
    for part in ("job 1042, ada's train.sh", "expected: nothing", "left as written", "COMPLETED"):
        assert part in text


@pytest.mark.parametrize(
    ("named", "status", "said"),
    [
        ("9999", 1, "knows nothing of 9999"),
        ("d1-ffffffffffffffff", 1, "knows nothing of d1-ffffffffffffffff"),
        ("train.sh", 2, "neither a job id (1042, or 1042_7 in an array) nor a token"),
    ],
)
def test_explain_of_the_unknown_is_a_clear_error(
    taught: Path, named: str, status: int, said: str
) -> None:
    """What was asked for, and why it may not be there."""
    done = dlqueue("explain", named, folder=taught)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr


CHANGE = {
    "script": "a\x1b[2Jb.sh",
    "mode": "shadow",
    "action": "change",
    "why": "it waits for data with no workers, which costs 50% of its speed",
    "before": {"cpus_per_task": 1, "num_workers": 0},
    "after": {"cpus_per_task": 4, "num_workers": 4},
    "predicted_before": {"samples_per_s": 10, "interval": [8, 12], "bottleneck": "data"},
    "predicted_after": {"samples_per_s": 40, "interval": [30, 50], "bottleneck": "accelerator"},
    "emulated": True,
    "runs": 3,
    "level": "same script",
    "opt_out": "--comment=dlqueue=off",
}


def test_a_change_is_told_with_both_rates_the_mode_and_the_way_out() -> None:
    """Nobody mistakes a prediction in shadow mode for something that will happen."""
    text = "\n".join(lines(CHANGE))
    assert "cpus-per-task 1 -> 4, workers 0 -> 4" in text
    assert "10 samples/s (8 to 12), limited by data" in text
    assert "emulated" in text
    assert "--comment=dlqueue=off" in text
    assert "The mode here is shadow" in text
    assert "\x1b" not in text  # a file's name cannot command the terminal


def test_the_plot_shows_the_curve_without_colours() -> None:
    """It is readable in a pipe as in a terminal."""
    curve = [
        {"num_workers": n, "samples_per_s": 10.0 * n, "low": 9.0 * n, "high": 11.0 * n}
        for n in range(5)
    ]
    text = plot(list(curve), {"cpus_per_task": 4, "num_workers": 3})
    assert "samples/s over workers, with 4 CPUs per task" in text
    assert len(text.splitlines()) > 8


def test_the_answer_is_whole_without_a_plot(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`pip install dlqueue` alone brings no plotext, and nobody asked for a plot."""
    monkeypatch.setitem(sys.modules, "plotext", None)
    point = {"num_workers": 1, "samples_per_s": 2.0, "low": 1.0, "high": 3.0}
    show({**CHANGE, "curve": [point, {**point, "num_workers": 2}]})
    captured = capsys.readouterr()
    assert captured.out.splitlines() == list(lines(CHANGE))
    assert not captured.err


def test_sharing_is_told_in_a_clause() -> None:
    """People read what the job becomes and costs at most, or why its GPU stays whole."""
    told = {
        "share": True,
        "gres": "mps:50",
        "worst": 0.88,
        "mode": "shadow",
        "evidence": "these two were measured together",
        "why": "",
    }
    assert sharing(told) == (
        "mps:50 instead of its GPU, at most 12 % slower (these two were measured together);"
        " the mode here is shadow"
    )
    said = sharing({**told, "share": False, "why": "it has several tasks"})
    assert said == "its GPU stays its own: it has several tasks"


def test_who_may_neither_ask_nor_read_is_told_whom_to_ask(
    taught: Path, script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The usual case of a cluster's user: the setting is named, not the database."""
    from slurm_ext.cli import main

    predicted(taught, script)  # writes the settings
    (taught / "none.sock").write_text("")
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    words = [str(script), "--config", str(taught / "dlqueue.toml")]
    assert main(["predict", *words]) == 1
    assert "advisor.socket_mode = 438" in capsys.readouterr().err
