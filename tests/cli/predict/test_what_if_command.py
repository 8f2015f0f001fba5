"""`dlqueue predict --what-if` as people start it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli.predict.text import duration
from slurm_ext.cli.predict.what_if_text import plot
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Decision, Mode, Shape
from slurm_ext.history.ingest.decisions import record_proposals
from slurm_ext.history.ingest.proposals import Proposal
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history

GOLDEN = Path(__file__).parents[2] / "golden" / "spool" / "v1.json"
TOKEN = "d1-0123456789abcdef"
SCRIPT = "#!/bin/bash\n#SBATCH -c 2 --mem=4G --time=10\npython3 train.py\n"
SBATCH = 'echo "sbatch: Job 1 to start at $(($(date +%s) + 3600)) using 2 processors" >&2'
SCONTROL = (
    'test "$2 $3" = "show node" && echo "NodeName=n1 CPUTot=8 RealMemory=8000 Gres=(null)'
    ' State=IDLE Partitions=main"'
)


def dlqueue(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command with settings that name only files under `folder`; its Slurm is in bin/."""
    config = folder / "dlqueue.toml"
    paths = {"state_dir": "state", "socket": "none.sock", "kill_file": "off", "slurm_bin": "bin"}
    said = "".join(f'{name} = "{folder / path}"\n' for name, path in paths.items())
    config.write_text(f'[site]\nmode = "act"\n[paths]\n{said}')
    command = [sys.executable, "-m", "slurm_ext.cli", "predict", *words, "--config", str(config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A batch script."""
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def taught(tmp_path: Path, script: Path) -> Path:
    """A state folder with one run of the script."""
    return teach(tmp_path, script, GOLDEN.read_text())


def teach(folder: Path, script: Path, record: str) -> Path:
    """A history whose one run is of the script."""
    from slurm_ext.cli.predict.script_file import submission

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
    spool = folder / "state" / "spool"
    spool.mkdir(parents=True)
    (spool / "cluster-1042-0-n1.json").write_text(record)
    with open_history(folder / "state" / "history.db") as history:
        record_proposals(history, [proposal], "a.jsonl", 1)
        ingest_folder(history, spool, now_s=1_760_000_100.0)
    return folder


def slurm(folder: Path, sbatch: str = SBATCH, scontrol: str = SCONTROL) -> None:
    """Programs in the place of Slurm's."""
    (folder / "bin").mkdir(exist_ok=True)
    for name, text in (("sbatch", sbatch), ("scontrol", scontrol)):
        program = folder / "bin" / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)


def told(folder: Path, *words: str) -> dict[str, Any]:
    """What --json prints."""
    done = dlqueue(*words, "--json", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def row(said: dict[str, Any], mark: str) -> dict[str, Any]:
    """The row with a mark."""
    (found,) = [one for one in said["rows"] if mark in one["marks"]]
    assert isinstance(found, dict)
    return found


def test_without_slurm_the_waits_are_unknown_with_the_reason(taught: Path, script: Path) -> None:
    """Rates and run times are there all the same, from the history alone."""
    said = told(taught, str(script), "--what-if")
    assert (said["v"], said["source"], said["level"]) == (1, "history", "same script and arguments")
    advice = "scontrol is not here: install Slurm's client commands, or set paths.slurm_bin"
    assert advice in said["queue_why"]
    written = row(said, "written")
    assert (written["cpus_per_task"], written["wait_s"]) == (2, None)
    assert written["wait_why"] == said["queue_why"]
    low, high = written["interval"]
    assert low < written["samples_per_s"] < high
    assert written["run_s"] == pytest.approx(3072 / written["samples_per_s"] + 18.5)
    assert written["cpu_hours"] == pytest.approx(2 * written["run_s"] / 3600)
    assert written["gpu_hours"] == 0
    assert row(said, "recommended")["samples_per_s"] >= written["samples_per_s"]
    assert (said["work"]["samples"], said["work"]["runs"]) == (3072, 1)


def test_slurm_says_the_wait_of_each_shape(taught: Path, script: Path) -> None:
    """And the time to result is both together."""
    slurm(taught)
    said = told(taught, str(script), "--what-if")
    assert said["queue_why"] is None
    written = row(said, "written")
    assert 3500 < written["wait_s"] < 3601
    assert written["result_s"] == written["wait_s"] + written["run_s"]
    assert written["sbatch"] == []


def test_refused_shapes_are_shown_and_say_why(taught: Path, script: Path) -> None:
    """The reason is one clause, in the table's remarks."""
    no = "allocation failure: Requested node configuration is not available"
    slurm(taught, f"case \"$*\" in *task=64*) echo '{no}' >&2; exit 1;; esac; {SBATCH}")
    words = (str(script), "--cores", "2,64")
    (refused,) = [one for one in told(taught, *words)["rows"] if one["refused"]]
    assert (refused["cpus_per_task"], refused["wait_s"]) == (64, None)
    assert refused["refused"] == "more CPUs than any node has (8)"
    assert "recommended" not in refused["marks"]
    done = dlqueue(*words, folder=taught)
    assert "Slurm refuses it: more CPUs than any node has (8)" in done.stdout


def test_a_controller_that_is_away_is_no_refusal(taught: Path, script: Path) -> None:
    """Each row's wait is unknown, and the table is there."""
    slurm(taught, "echo 'allocation failure: Unable to contact slurm controller' >&2; exit 1")
    written = row(told(taught, str(script), "--what-if"), "written")
    assert written["refused"] is None
    assert "Unable to contact slurm controller" in written["wait_why"]


def test_people_see_a_table_the_evidence_and_the_marks(taught: Path, script: Path) -> None:
    """And with --plot the curve."""
    done = dlqueue(str(script), "--what-if", "--plot", folder=taught)
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        "job.sh in other shapes",
        "as written",
        "* recommended",
        "CPU-hours",
        "1 run, same script and arguments; the accelerator was emulated",
        "wait:      unknown: ",
        "samples/s over",
    ):
        assert part in done.stdout


def test_without_history_it_says_so_clearly(tmp_path: Path, script: Path) -> None:
    """One row, no invented number, exit 0."""
    said = told(tmp_path, str(script), "--what-if")
    assert [one["marks"] for one in said["rows"]] == [["written"]]
    assert (said["rows"][0]["samples_per_s"], said["work"]) == (None, None)
    done = dlqueue(str(script), "--what-if", folder=tmp_path)
    assert done.returncode == 0
    assert "I do not know yet: no runs like this one" in done.stdout
    assert "recommended: none of these" in done.stdout


def test_a_run_of_zero_samples_is_left_out_and_counted(tmp_path: Path, script: Path) -> None:
    """Neither a crash nor a rate."""
    teach(tmp_path, script, GOLDEN.read_text())
    with open_history(tmp_path / "state" / "history.db") as history, history.transaction() as conn:
        conn.execute("UPDATE loader_runs SET samples_per_s = 0, run_samples = 0")
    said = told(tmp_path, str(script), "--what-if")
    assert said["not_believed"] == 1
    assert "I do not believe the only run like this one" in said["rows"][0]["rate_why"]
    assert "not believed: 1 run, whose" in dlqueue(str(script), "--what-if", folder=tmp_path).stdout


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--cores", "0"), 2, "'0': expected counts from 1 to 65536 such as 1,2,4"),
        (("--cores", "1,,2"), 2, "expected counts from 1"),
        (("--cores=-1",), 2, "expected counts from 1"),
        (("--cores", "99999999999999"), 2, "expected counts from 1"),
        (("--workers", "two"), 2, "expected counts from 0"),
        (("--gpus", "x"), 2, "argument --gpus: 'x': expected counts from 1"),
        (("--gpu-type", "a:b"), 2, "expected names such as a100,h100"),
        (("--gpu-type", "h100"), 2, "--gpu-type h100: no node and no run like this one has it"),
        (("--cores", ",".join(map(str, range(1, 60)))), 2, "make 59 rows; at most 48"),
    ],
)
def test_absurd_axes_are_wrong_usage(
    taught: Path, script: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    """The error names the option, what was given, and what would be valid."""
    done = dlqueue(str(script), "--what-if", *words, folder=taught)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read"), (b"python train.py\n", "has to begin with #!")],
)
def test_a_script_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    """As without --what-if."""
    path = tmp_path / "job.sh"
    if content is not None:
        path.write_bytes(content)
    done = dlqueue(str(path), "--what-if", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


def test_the_options_ask_for_the_table_by_themselves(taught: Path, script: Path) -> None:
    """Whoever names an axis means the table."""
    said = told(taught, str(script), "--workers", "0,3")
    assert {one["num_workers"] for one in said["rows"]} >= {0, 3}


def test_plain_predict_brings_none_of_the_table_along(script: Path, taught: Path) -> None:
    """It has to start at once: nothing of what-if, and nothing heavy."""
    code = (
        "import sys; from slurm_ext.cli import main; main(sys.argv[1:]);"
        "heavy = {'numpy', 'slurm_ext.cli.predict.what_if', 'slurm_ext.advisor.what_if.table',"
        " 'subprocess',"
        " 'concurrent.futures', 'slurm_ext.model.scaling.model', 'sqlite_utils'};"
        "print(sorted(heavy & {*sys.modules}))"
    )
    config = taught / "dlqueue.toml"
    dlqueue(str(script), folder=taught)
    words = ["predict", str(script), "--json", "--config", str(config)]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_durations_are_read_at_a_glance() -> None:
    """Seconds, minutes, hours, days."""
    given = (None, 45, 119.6, 720, 3600 * 5, 86400 * 3)
    assert [duration(s) for s in given] == ["unknown", "45 s", "120 s", "12 min", "5.0 h", "3.0 d"]


def test_a_plot_of_one_point_is_a_line_of_text() -> None:
    """Nothing to draw is said, not drawn."""
    one = {"marks": ["written"], "samples_per_s": None, "gpus": 0, "nodes": 1, "gpu_type": None}
    assert "nothing to plot" in plot([{**one, "cpus_per_task": 1, "num_workers": 0}])
