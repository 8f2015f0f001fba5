"""`dlqueue recommend` as people start it."""

import copy
import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history

GOLDEN = Path(__file__).parents[2] / "golden" / "spool" / "v1.json"
GIB = 1 << 30


def counter(name: str, value: float) -> dict[str, Any]:
    """One of a GPU's, as the sampler writes it."""
    unit = "B" if name.endswith("_peak") else "1"
    return {"name": f"{name}@GPU-1", "unit": unit, "source": "nvml/GPU-1", "value": value}


def record(job_id: int, util: float | None, *, real: bool = True) -> dict[str, Any]:
    """My run of train.sh on one GPU that worked for so much of the time."""
    told: dict[str, Any] = copy.deepcopy(json.loads(GOLDEN.read_text()))
    told["record_id"], told["decision"] = f"cluster-{job_id}-0-n1", None
    told["identity"].update({"job_id": job_id, "user": pwd.getpwuid(os.getuid()).pw_name})
    told["corunners"] = []
    told["allocation"].update({"gpus": ["0"] if real else [], "cpus": 16})
    for summary in told["probe"]["summaries"]:
        summary["accelerator"] = "cuda" if real else None
    if util is not None:
        told["counters"] += [counter("gpu_util", util), counter("gpu_job_mem_peak", 4 * GIB)]
    return told


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A settings file whose state folder is beside it."""
    (tmp_path / "state" / "spool").mkdir(parents=True)
    config = tmp_path / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{tmp_path / "state"}"\n')
    return config


def ingest(site: Path, *records: dict[str, Any]) -> None:
    """What the history writer would do."""
    spool = site.parent / "state" / "spool"
    for one in records:
        (spool / f"{one['record_id']}.json").write_text(json.dumps(one))
    with open_history(site.parent / "state" / "history.db") as history:
        ingest_folder(history, spool, now_s=1_760_000_100.0)


def asked(site: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The document."""
    line = ["recommend", *words, "--json", "--config", str(site)]
    assert main(line) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_ranks_are_recommended_with_their_evidence(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the name of earlier runs: ranks, batch, workers, and which runs say so."""
    ingest(site, record(1, 0.2), record(2, 0.2))
    document = asked(site, capsys, "--name", "train.sh", "--gpu-mem-mib", "40960")
    best = document["recommendation"]
    assert best["ranks_per_gpu"] > 1
    assert best["ranks_per_gpu"] * best["batch"] == 32
    assert best["gain"] > 0.05
    assert [one["job_id"] for one in document["runs"]] == [2, 1]
    assert document["missing"] == []
    assert document["room"]["most_batch"] is None
    assert document["others"]


def test_people_read_the_same(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what to do next."""
    ingest(site, record(1, 0.2))
    words = ["--name", "train.sh", "--gpu-mem-mib", "40960", "--config", str(site)]
    assert main(["recommend", *words]) == 0
    text = capsys.readouterr().out
    assert "ranks per GPU" in text
    assert "RANKS_PER_GPU=" in text
    assert "on:       1 runs, same user and job name (jobs 1)" in text


def test_a_script_is_known_by_its_job_name(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no run has its exact text, the user's runs of that name stand in."""
    ingest(site, record(1, 0.2))
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\n#SBATCH --job-name=train.sh\npython3 train.py\n")
    document = asked(site, capsys, str(script), "--gpu-mem-mib", "40960")
    assert document["level"] == "same user and job name"
    assert document["recommendation"] is not None


@pytest.mark.parametrize("by_script", [False, True])
def test_a_run_that_was_not_measured_is_named(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, by_script: bool
) -> None:
    """The history has it: what is missing is a training that the probe knows."""
    unmeasured = record(7, 0.2)
    unmeasured["probe"]["summaries"] = []
    ingest(site, unmeasured)
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\nmake data\n")
    words = [str(script)] if by_script else ["--name", "train.sh"]
    document = asked(site, capsys, *words, "--gpu-mem-mib", "40960")
    (missing,) = document["missing"]
    assert missing.startswith("a run of it that was measured: in job 7 the probe saw no training")
    assert document["recommendation"] is None


@pytest.mark.parametrize(
    ("records", "words", "said"),
    [
        ([], ["--gpu-mem-mib", "40960"], "the history has none"),
        ([record(1, None, real=False)], ["--gpu-mem-mib", "40960"], "accelerator was emulated"),
        ([record(1, None)], ["--gpu-mem-mib", "40960"], "the GPU's utilisation"),
        ([record(1, 0.2)], [], "how much memory the GPU has"),
    ],
    ids=["no run", "emulated", "not counted", "size not told"],
)
def test_missing_evidence_is_said_and_nothing_recommended(
    site: Path,
    capsys: pytest.CaptureFixture[str],
    records: list[dict[str, Any]],
    words: list[str],
    said: str,
) -> None:
    """An honest "I do not know" is an answer, with exit 0."""
    ingest(site, *records)
    document = asked(site, capsys, "--name", "train.sh", *words)
    assert document["recommendation"] is None
    assert any(said in what for what in document["missing"])
    assert main(["recommend", "--name", "train.sh", *words, "--config", str(site)]) == 0
    assert "train.sh: no recommendation\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a batch script, or a job of the history with --name"),
        (["a.sh", "--name", "b"], "name a batch script, or a job"),
        (["a.sh", "--user", "ada"], "--user goes with --name"),
    ],
)
def test_wrong_usage_is_told(
    site: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """Exit 2, one line."""
    ingest(site)
    assert main(["recommend", *words, "--config", str(site)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-1", "many", "9" * 30])
def test_sizes_are_whole_numbers(
    site: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    """The option that is wrong is named."""
    with pytest.raises(SystemExit):
        main(["recommend", "--name", "x", f"--gpu-mem-mib={value}", "--config", str(site)])
    assert "--gpu-mem-mib" in capsys.readouterr().err


def test_without_a_history_it_says_who_makes_one(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, one line."""
    assert main(["recommend", "--name", "x", "--config", str(site)]) == 1
    assert "`dlqueue serve` creates it" in capsys.readouterr().err
