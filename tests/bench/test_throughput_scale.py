"""The benchmark of extrapolated counts: flaws are named, and nothing leaks from the job asked."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from contrib.bench.throughput.scale import __main__ as throughput_scale
from contrib.bench.throughput.scale import fit_prior
from slurm_ext.model.scaling import sampling

FLOORS = {"bert": 0.3, "resnet50": 0.15, "lstm": 0.05}
GPUS = "elasticflow_a100.csv"
THREADS = "presto_thread_scaling.csv"


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Three models over GPUs and three pipelines over threads, all after Amdahl's law."""
    return written(tmp_path / "tables")


def written(folder: Path, poison: Mapping[str, float] | None = None) -> Path:
    """The tables; the rates of a model in `poison` are so many times too high from 8 GPUs on."""
    folder.mkdir()
    gpus, threads = ["model,global_batch_size,num_gpus,iters_per_s"], []
    for model, floor in FLOORS.items():
        for count in (1, 2, 4, 8, 16):
            rate = 1 / (floor + (1 - floor) / count)
            wrong = (poison or {}).get(model, 1.0) if count >= 8 else 1.0
            gpus.append(f"{model},64,{count},{rate * wrong}")
            threads += [f"{model},all,0,{count},{rate * noise}" for noise in (0.99, 1, 1.01)]
    (folder / GPUS).write_text("\n".join(gpus))
    (folder / THREADS).write_text("\n".join(["pipeline,strategy,epoch,threads,speedup", *threads]))
    return folder


@pytest.fixture(scope="module", autouse=True)
def few_draws() -> Iterator[None]:
    """Curves by fewer draws and rounds: near enough for tables without noise, and quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "DRAWS", 300)
        patch.setattr(fit_prior, "ROUNDS", 1)
        yield


def figures(train: Path, test: Path) -> Any:
    """What is told of the tables."""
    told = throughput_scale.run(train, test, quick=True)
    rows = throughput_scale.wanted(told)
    assert all({"what", "target", "got", "met"} == set(one) for one in rows)
    return told


@pytest.fixture(scope="module")
def told(few_draws: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The figures of the tables with every flaw among their rows."""
    tables = written(tmp_path_factory.mktemp("flawed") / "tables")
    lines = (tables / GPUS).read_text().splitlines()
    (tables / GPUS).write_text("\n".join([lines[0], *FLAWS, *lines[1:]]))
    with (tables / THREADS).open("a") as file:
        file.write("\nodd,all,0,8,7.0\n")
    return figures(tables, tables)


def test_known_counts_tell_the_larger_ones(told: Any) -> None:
    """Each job is predicted from its first counts and other jobs, better than in a line."""
    gpus, threads = told["gpus_8_to_64"], told["threads_8_from_2_and_4"]
    assert (gpus["n"], threads["n"]) == (6, 6)
    for part in (gpus, threads):
        assert part["ours"]["medape"] < 10 < part["baselines"]["linear"]["medape"]
        assert part["ours"]["coverage90"] == 1


def test_nothing_is_learnt_from_the_job_that_is_asked(tables: Path, tmp_path: Path) -> None:
    """What the training folder says of the very models that are asked changes no answer to them."""
    only = tmp_path / "one"
    only.mkdir()
    lines = (tables / GPUS).read_text().splitlines()
    (only / GPUS).write_text("\n".join([lines[0], *(row for row in lines if "bert" in row)]))
    same = written(tmp_path / "same_job_wrong", {"bert": 3.0})
    others = written(tmp_path / "other_jobs_wrong", {"resnet50": 3.0, "lstm": 3.0})
    answer = figures(tables, only)["gpus_8_to_64"]["ours"]
    assert figures(same, only)["gpus_8_to_64"]["ours"] == answer
    assert figures(others, only)["gpus_8_to_64"]["ours"] != answer


FLAWS = {
    "bert,64,8,": "could not convert",
    "bert,64,8": "could not convert",
    "bert,64,8,-1": "a rate of -1",
    "bert,64,8,nan": "a rate of nan",
    "bert,64,8,0": "not runnable",
    "bert,64,0,2": "a count of 0",
    "bert,-64,8,2": "a batch of -64",
    "bert,many,8,2": "could not convert",
}


def test_flawed_rows_are_named_and_left_out(told: Any) -> None:
    """Empty, negative and unreadable cells are told by file and line; the rest is scored."""
    for line, why in enumerate(FLAWS.values(), 2):
        named = [said for said in told["skipped"] if said.startswith(f"{GPUS}:{line}: ")]
        assert len(named) == 1
        assert why in named[0]
    assert told["gpus_8_to_64"]["n"] == 6


def test_a_series_with_one_known_count_is_left_out(told: Any) -> None:
    """What cannot be extrapolated is said, not guessed."""
    assert any("odd" in line and "not both measured" in line for line in told["skipped"])
    assert told["threads_8_from_2_and_4"]["n"] == 6


def test_an_absent_table_leaves_the_others(tables: Path) -> None:
    """One table less is one protocol less, and is said."""
    (tables / THREADS).unlink()
    told = figures(tables, tables)
    assert "threads_8_from_2_and_4" not in told
    assert any(THREADS in line and "cannot be read" in line for line in told["skipped"])


def test_a_table_of_something_else_is_named(tables: Path) -> None:
    """A file without the columns is refused with the columns it lacks."""
    (tables / GPUS).write_text("a,b\n1,2\n")
    told = figures(tables, tables)
    assert any("has no column model" in line for line in told["skipped"])


def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """The benchmark as people start it: exit status, and what it prints."""
    argv = ["throughput/scale", "--train", str(folder), "--test", str(folder), "--quick"]
    monkeypatch.setattr("sys.argv", argv)
    try:
        throughput_scale.main()
    except SystemExit as ended:
        return cast("int", ended.code), *capsys.readouterr()
    return 0, *capsys.readouterr()


def test_the_last_line_is_the_answer(
    tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One JSON object after the table for people; what `predict` says stands beside ours."""
    status, out, _ = run(tables, monkeypatch, capsys)
    told = json.loads(out.splitlines()[-1])
    assert (status, set(told)) == (0, {"bench", "figures", "wanted"})
    served = told["figures"]["gpus_8_to_64"]["baselines"]["nothing_learnt"]
    assert served["coverage90"] > 0.5


def test_a_folder_without_tables_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing to score is one clear line, and no traceback."""
    status, _, said = run(tmp_path, monkeypatch, capsys)
    assert status == 1
    assert "none of the tables" in said
    assert "Traceback" not in said


def test_nothing_to_foretell_is_said(tables: Path) -> None:
    """A table without any of the counts asked for is named, not passed over."""
    rows = (tables / GPUS).read_text().splitlines()
    small = [row for row in rows if row.split(",")[2] not in ("8", "16")]
    (tables / GPUS).write_text("\n".join(small))
    told = figures(tables, tables)
    assert "gpus_8_to_64" not in told
    assert "elasticflow: no series has a count from 8 on" in told["skipped"]


def test_noise_says_how_near_anybody_can_come(tables: Path) -> None:
    """Where measurements are repeated, the least median error that they leave; else nothing."""
    told = figures(tables, tables)
    assert told["gpus_8_to_64"]["least_medape"] is None
    least = told["threads_8_from_2_and_4"]
    assert 0 < least["least_medape"] < least["least_medape_from_last_known"] < 1.5
