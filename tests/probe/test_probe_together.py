"""The rate of a job whose training is several processes, or several trainings: by its own clock."""

import json
from copy import deepcopy
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.records import LoaderRun
from slurm_ext.core.stalls.step_split import step_split
from slurm_ext.core.trainings import Training, trainings
from tests.probe.conftest import QUICKLY, ROOT, Environment, Python

GOLDEN = json.loads((ROOT / "tests" / "golden" / "spool" / "v1.json").read_text(encoding="utf-8"))
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone")
NEAR = 0.10  # the two clocks begin and end some steps apart
Told = list[list[float]]


class Trained:
    """A program's own clock, its trainings and its evidence, as the probe saw them."""

    def __init__(self, told: Told, summaries: list[dict[str, Any]]) -> None:
        self.told = told
        self.summaries = summaries
        self.trainings: list[Training] = list(trainings(summaries))
        record = deepcopy(GOLDEN)
        record["probe"]["summaries"] = summaries
        run = loader_run(record)
        assert run is not None
        self.run: LoaderRun = run

    def rate(self) -> float:
        """Samples/s of all its processes, by their own clock."""
        return sum(told[0] for told in self.told) / max(told[1] for told in self.told)

    def settled_rate(self) -> float:
        """Samples/s of one process after its first epoch, by its own clock."""
        return fmean(told[2] for told in self.told)


def trained(
    environment: Environment, python: Python, folder: Path, *words: str, **env: str
) -> Trained:
    """One of programs_together.py, to its end."""
    told = folder / "told"
    done = python([*words, str(told)], environment(folder / "run", **env))
    assert done.returncode == 0, done.stderr
    paths = sorted((folder / "run").glob("summary-*.json"))
    lines = told.read_text().splitlines()
    return Trained([json.loads(line) for line in lines], [json.loads(p.read_text()) for p in paths])


TOGETHER = ("-m", "tests.probe.programs_together")


@pytest.mark.parametrize(
    "words",
    [
        (*TORCHRUN, *QUICKLY, TOGETHER[1], "ranks"),
        (*TOGETHER, "spawned"),
        (*TOGETHER, "side_by_side"),
    ],
    ids=lambda words: words[-1],
)
def test_processes_that_train_together_are_one_rate(
    environment: Environment, python: Python, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Two ranks of torchrun, of mp.spawn, two processes side by side: the job's rate is of both."""
    done = trained(environment, python, tmp_path, *words)
    assert done.run.whole_samples_per_s == pytest.approx(done.rate(), rel=NEAR)
    assert done.run.samples_per_s == pytest.approx(done.settled_rate(), rel=NEAR)
    assert (done.run.ranks, done.run.doubt, len(done.trainings)) == (2, None, 1)


@pytest.mark.parametrize(
    ("words", "data_ranks"), [("replicas", 2), ("shards", 2), ("parts", 1)], ids=str
)
def test_ranks_that_read_the_same_count_once_unless_they_average(
    environment: Environment, python: Python, tmp_path: Path, words: str, data_ranks: int
) -> None:
    """One seed for DDP's ranks, or FSDP's: each works on samples of its own; parts share theirs."""
    done = trained(environment, python, tmp_path, *TOGETHER, words)
    marks = [summary["loaders"][0]["first_batches"] for summary in done.summaries]
    assert (marks[0], len(set(marks[0]))) == (marks[1], 4)
    assert [summary["data_ranks"] for summary in done.summaries] == [data_ranks] * 2
    assert done.run.whole_samples_per_s == pytest.approx(done.rate(), rel=NEAR)
    assert done.run.ranks == 2


def test_ranks_wait_for_the_one_that_computes_longer(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """Two ranks over gloo, by torch's own logger: rank 1 sleeps 40 ms longer in each step."""
    done = trained(environment, python, tmp_path, *TOGETHER, "uneven")
    said = [summary["communication"] for summary in done.summaries]
    assert [(one["backend"], one["per_step"]) for one in said] == [("gloo", 1.0)] * 2
    first, second = (set(one["iterations"]) for one in said)
    assert len(first & second) >= 4
    assert [sum(one["bucket_bytes"]) for one in said] == [20, 20]
    split = step_split(done.summaries)
    assert split is not None
    assert (split.ranks, split.slow_rank) == (2, 1)
    assert split.slow_rank_s > max(split.communicating_s, split.data_s)


def test_trainings_one_after_the_other_are_told_apart(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """Three in one script: each has its own rate, and the largest one teaches."""
    done = trained(environment, python, tmp_path, *TOGETHER, "in_turns")
    largest = max(done.told)
    assert done.run.whole_samples_per_s == pytest.approx(largest[0] / largest[1], rel=NEAR)
    found = sorted(one.samples_per_s or 0 for one in done.trainings)
    assert found == pytest.approx(sorted(told[0] / told[1] for told in done.told), rel=NEAR)
    assert done.run.ranks == 1


def test_trainings_of_one_process_are_told_apart(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """Two folds, each with a model, an optimiser and a loader of its own that look alike."""
    done = trained(environment, python, tmp_path, *TOGETHER, "folds")
    found = sorted(one.samples_per_s or 0 for one in done.trainings)
    assert found == pytest.approx(sorted(told[0] / told[1] for told in done.told), rel=NEAR)
    assert (done.run.ranks, done.run.doubt) == (1, None)


def test_gathering_the_next_data_is_in_the_rate_that_is_told(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """Seven rollouts of 0.2 s between passes; a pause between passes over one data is not in it."""
    done = trained(environment, python, tmp_path, *TOGETHER, "played")
    (loader,) = done.summaries[0]["loaders"]
    assert sum(phase["gathered_s"] for phase in loader["phases"]) > 7 * 0.2
    assert done.trainings[0].samples_per_s == pytest.approx(done.rate(), rel=NEAR)
    assert done.run.samples_per_s > 1.3 * done.rate()


def test_what_each_epoch_ends_with_is_in_the_rate_that_is_told(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """The loop's own computing is; validations, which compute too, and pauses are not."""
    done = trained(environment, python, tmp_path, *TOGETHER, "closed")
    (loader,) = done.summaries[0]["loaders"]
    assert sum(phase["gathered_s"] for phase in loader["phases"]) > 5 * 0.08
    assert done.trainings[0].samples_per_s == pytest.approx(done.rate(), rel=NEAR)


@pytest.mark.parametrize("program", ["grown", "paired"])
def test_samples_are_those_that_steps_were_made_with(
    environment: Environment, python: Python, tmp_path: Path, program: str
) -> None:
    """Of batches that grow within the epoch, and of a loader that is zipped with itself, once."""
    done = trained(environment, python, tmp_path, *TOGETHER, program)
    (loader,) = done.summaries[0]["loaders"]
    phases = loader["phases"]
    assert sum(phase["samples"] for phase in phases) == done.told[0][0]
    assert [phase["steps"] for phase in phases] == [phase["batches"] for phase in phases]
    assert done.trainings[0].samples_per_s == pytest.approx(done.rate(), rel=NEAR)


def test_starting_workers_is_in_the_rate_that_is_told(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """On epochs of half a second the steady rate is beside the clock; the whole one is not."""
    env = {"DLQUEUE_NUM_WORKERS": "2"}
    done = trained(environment, python, tmp_path, *TOGETHER, "short_epochs", **env)
    assert done.run.workers == 2
    assert done.run.startup_s is not None
    assert done.run.startup_s > 0
    assert done.run.whole_samples_per_s == pytest.approx(done.rate(), rel=NEAR)
    assert done.run.samples_per_s > 1.05 * done.rate()
