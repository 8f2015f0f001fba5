"""`dlqueue profile` on real trainings: the stall put in comes out, and nothing is saved."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.whole import QUICK_TORCH

ROOT = Path(__file__).parents[3]
FETCH_S = 0.04
TRAINING = (
    QUICK_TORCH
    + """
import os, sys, time, torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 4096
    def __getitem__(self, index):
        time.sleep(0.04)
        return torch.zeros(8)
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
if int(os.environ.get("WORLD_SIZE", "1")) > 1:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
os.makedirs("logs/1", exist_ok=True)
print("training", flush=True)
for number, batch in enumerate(DataLoader(Slow(), 1, num_workers=int(sys.argv[1]))):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    time.sleep(0.01)
    if number % 20 == 0:
        torch.save(model.state_dict(), "checkpoint.pt")
        with open("logs/1/loss.txt", "a") as log:
            log.write("1")
"""
)

SHARDED = """
import time, torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
for layer in (*model, model):
    fully_shard(layer, mesh=dist.init_device_mesh("cpu", (2,)))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in DataLoader(torch.zeros(40960, 256), 16):
    time.sleep(0.05 * (dist.get_rank() == 1))  # a slow rank: the other one waits for it
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""

STEPLESS = """
import torch
from torch.utils.data import DataLoader
for _ in DataLoader(torch.zeros(9, 2)):
    pass
"""


def profile(
    folder: Path, *words: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the command in the user's folder."""
    kept = {name: value for name, value in os.environ.items() if "DLQUEUE" not in name}
    env = {**kept, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder / "state")}
    return subprocess.run(
        [sys.executable, "-m", "slurm_ext.cli", "profile", *options, "--", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with a training and a checkpoint of an earlier run."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "train.py").write_text(TRAINING)
    (folder / "checkpoint.pt").write_bytes(b"weights of a week")
    os.utime(folder / "checkpoint.pt", (1_000_000_000, 1_000_000_000))
    return folder


@pytest.fixture(scope="module")
def profiled(project: Path) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """One run with one worker: what the command said, and its document."""
    page = str(project.parent / "page.html")
    options = ("--json", "--steps", "120", "--html", page)
    done = profile(project, sys.executable, "train.py", "1", options=options)
    assert done.returncode == 0, done.stderr
    return done, json.loads(done.stdout)


def test_the_data_stall_that_was_put_in_comes_out(
    profiled: tuple[object, dict[str, Any]],
) -> None:
    """One worker sleeps 40 ms for a batch: a step waits for what its own time leaves of that.

    On a busy machine it sleeps longer, and whatever a step takes beyond its own time is the stall.
    """
    _, found = profiled
    assert (found["depth"], found["why_not"]) == ("L1", None)
    computing = next(p["value"] for p in found["parts"] if p["name"] == "computing")
    assert found["data"]["value"] > 0.85 * (FETCH_S - computing)
    waited = found["step"]["value"] - computing
    assert found["data"]["value"] == pytest.approx(waited, rel=0.15)
    assert found["data"]["low"] <= found["data"]["value"] <= found["data"]["high"]
    assert found["first"]["name"] == "fetch"


def test_nothing_of_the_users_is_written(
    project: Path, profiled: tuple[object, dict[str, Any]]
) -> None:
    """The checkpoint keeps its bytes and its time; saves and files are counted."""
    _, found = profiled
    assert sorted(path.name for path in project.iterdir()) == ["checkpoint.pt", "train.py"]
    assert (project / "checkpoint.pt").read_bytes() == b"weights of a week"
    assert (project / "checkpoint.pt").stat().st_mtime == 1_000_000_000
    assert found["saves"]["torch.save"] >= 2
    assert found["files"]["written"] == 1


def test_the_trainings_own_words_leave_the_answer_clean(
    project: Path,
    profiled: tuple[subprocess.CompletedProcess[str], object],
) -> None:
    """They go to standard error; the page has the windows drawn."""
    done, _ = profiled
    assert "training" in done.stderr
    page = (project.parent / "page.html").read_text()
    assert "<svg" in page
    assert "cached batches" in page


def test_two_ranks_go_through_the_same_windows(project: Path) -> None:
    """Gradients are left unsynchronised in two kinds of window, and nobody waits for ever."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    options = ("--json", "--steps", "80")
    done = profile(project, sys.executable, *torchrun, "train.py", "0", options=options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["depth"], found["ranks"]) == ("L1", 2), done.stderr
    assert {window["kind"] for window in found["windows"]} == {"N", "C", "S", "B"}
    assert found["hidden"] is not None
    top = [part for part in found["parts"] if part["part_of"] is None]
    assert sum(part["value"] for part in top) == pytest.approx(found["step"]["value"])


@pytest.mark.long(short="cli/profile/test_profile_answers.py::test_traces_tell_what_fsdp_exposes")
def test_fsdp_is_told_by_traces(tmp_path: Path) -> None:
    """Its all-gathers and reduce-scatters have a part each, and so has a slow rank's 50 ms."""
    (tmp_path / "train.py").write_text(SHARDED)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    options = ("--json", "--steps", "120")
    done = profile(tmp_path, sys.executable, *torchrun, "train.py", options=options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["depth"], found["ranks"]) == ("L1+trace", 2), found
    assert {window["kind"] for window in found["windows"]} == {"N", "C", "T"}
    parts = {part["name"]: part["value"] for part in found["parts"]}
    sent = [part for part in found["parts"] if part["part_of"] == "communicating"]
    assert {part["name"] for part in sent} == {"all-gather", "reduce-scatter", "slow rank"}
    assert sum(part["value"] for part in sent) == pytest.approx(parts["communicating"])
    assert parts["slow rank"] > 0.3 * 0.05  # half of it, for the mean rank: a busy core takes some
    top = [part for part in found["parts"] if part["part_of"] is None]
    assert sum(part["value"] for part in top) == pytest.approx(found["step"]["value"])
    assert not list(tmp_path.glob("trace-*"))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise SystemExit(3)", "no Python process with torch"),
        (STEPLESS, "no step of an optimiser"),
    ],
)
def test_where_windows_cannot_enter_the_reason_is_told(tmp_path: Path, code: str, why: str) -> None:
    """Status 1 where nothing was measured, with how the program ended, and no traceback."""
    done = profile(tmp_path, sys.executable, "-c", code)
    assert why in done.stdout
    assert done.returncode == (0 if code == STEPLESS else 1)
    assert ("exit status 3" in done.stdout) == (code != STEPLESS)


def test_a_run_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """With all its processes: nothing that saves nothing runs on for days."""
    options = ("--startup", "1", "--seconds", "1")
    done = profile(tmp_path, "sh", "-c", "sleep 300; true", options=options)
    assert done.returncode == 1
    assert "--startup" in done.stdout
