"""The throughput benchmark: bad tables, honest folds, laws that find their own surface, figures."""

import gzip
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrib.bench.throughput import __main__ as throughput
from contrib.bench.throughput import baselines, few_points, scores, tables
from slurm_ext.core.errors import InputError
from slurm_ext.model.scaling.terms import TrainingConfig, columns
from slurm_ext.training.scaling import fit as scaling_fit
from slurm_ext.training.scaling.rows import ScalingRow, by_pair

HEAD = (
    "model,cluster,sweep,placement,num_nodes,num_gpus,local_bsz,step_time,sync_time,samples_per_s"
)
LAYOUTS = ("1", "2", "4", "11", "22", "44", "1111", "4444")


def table(folder: Path, lines: list[str], head: str = HEAD) -> Path:
    """A folder with the table."""
    folder.mkdir(exist_ok=True)
    text = "\n".join([head, *lines]) + "\n"
    (folder / tables.NAME).write_bytes(gzip.compress(text.encode()))
    return folder


def lines(model: str, cluster: str, step_s: float) -> list[str]:
    """A training whose network step grows with GPUs, 1 % of noise."""
    noise = np.random.default_rng(len(model + cluster))
    out = []
    for placement in LAYOUTS:
        gpus, nodes = sum(map(int, placement)), len(placement)
        for batch in (8, 16, 32, 64):
            sync = 0.3 * step_s * (gpus - 1) ** 0.4 * (2 if nodes > 1 else 1)
            step = (step_s * (0.3 + 0.7 * batch / 8) + sync) * float(np.exp(noise.normal(0, 0.01)))
            rate = gpus * batch / step
            out.append(
                f"{model},{cluster},placements,{placement},{nodes},{gpus},{batch},{step},{sync},{rate}"
            )
    return out


GOOD = "bert,aws,placements,12,2,3,4,0.5,0.1,24"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("bert,aws,placements,12,2,3,4,0.5,0.1,0", "samples_per_s"),
        ("bert,aws,placements,12,2,3,4,0.5,0.1,-3", "samples_per_s"),
        ("bert,aws,placements,12,2,3,4,0.5,0.1,nan", "samples_per_s"),
        ("bert,aws,placements,12,2,3,4,0.5,0.1,", "samples_per_s"),
        ("bert,aws,placements,12,2,3,x,0.5,0.1,24", "local_bsz"),
        ("bert,aws,placements,12,2,2.5,4,0.5,0.1,24", "num_gpus"),
        ("bert,aws,placements,13,2,3,4,0.5,0.1,24", "placement"),
        ("bert,aws,placements,30,2,3,4,0.5,0.1,24", "without a GPU"),
        ("bert,aws,scalability,,4,3,4,0.5,0.1,24", "num_nodes"),
        ("bert,aws,placements,12,2", "cells"),
    ],
)
def test_a_bad_row_is_left_out_and_named(tmp_path: Path, line: str, why: str) -> None:
    """One bad cell costs its row, is told by file and line, and nothing else."""
    found = tables.read(table(tmp_path, [GOOD, line, GOOD]))
    assert len(found.rows) == 2
    assert len(found.skipped) == 1
    assert f"{tables.NAME}:3: left out" in found.skipped[0]
    assert why in found.skipped[0]


def test_a_bad_file_is_refused(tmp_path: Path) -> None:
    """Absent, empty, not compressed, torn, or with other columns: named, with what it lacks."""
    path = tmp_path / tables.NAME
    with pytest.raises(InputError, match="cannot be read"):
        tables.read(tmp_path)
    whole = (table(tmp_path, [GOOD]) / tables.NAME).read_bytes()
    for data in (b"not gzip", whole[:-12]):
        path.write_bytes(data)
        with pytest.raises(InputError, match="cannot be read"):
            tables.read(tmp_path)
    with pytest.raises(InputError, match="no usable row"):
        tables.read(table(tmp_path, []))
    with pytest.raises(InputError, match="lacks columns local_bsz"):
        tables.read(table(tmp_path, [GOOD], HEAD.replace("local_bsz", "batch")))


def test_a_known_training_is_foretold_without_its_model_and_without_its_cluster() -> None:
    """What is predicted was never learnt from; a new one is predicted from all there is."""
    rows = [
        ScalingRow(model=model, cluster=cluster, measured=None)  # type: ignore[arg-type]  # never read
        for model, cluster in (("bert", "dgx"), ("bert", "aws"), ("ncf", "dgx"))
    ]
    work = list(few_points._work([("bert", "dgx-ext"), ("gpt", "dgx")], rows))
    assert {(one.model, one.cluster, pair) for one, pair in work} == {
        ("bert", None, ("bert", "dgx-ext")),
        (None, "dgx", ("bert", "dgx-ext")),
        (None, None, ("gpt", "dgx")),
    }
    for without, (model, cluster) in work:
        left = [row for row in rows if without.keeps(row)]
        assert (model, tables.site(cluster)) not in by_pair(left)


def test_reveals_of_all_protocols_are_different_configs() -> None:
    """Each protocol shows as many different configs as its name says."""
    points = tables._row  # the reader's own parser makes the points
    cells = [
        dict(zip(HEAD.split(","), line.split(","), strict=True))
        for line in lines("bert", "aws", 0.1)
    ]
    mine = [points(one).measured for one in cells]
    for reveal in few_points.reveals(("bert", "aws"), mine, (1, 2)):
        assert len({mine[place].config for place in reveal.known}) == int(
            reveal.protocol.rsplit("_", maxsplit=1)[1]
        )


def surface(gpus: float, batch: float) -> float:
    """Log rate of a training that every law but the linear can follow."""
    return log(gpus * batch) - log((0.02 + 0.01 * batch) * (1 + 0.05 * (gpus - 1)))


@pytest.mark.parametrize(("name", "most"), [("log_linear", 0.2), ("usl", 0.01), ("pollux", 0.1)])
def test_baselines_follow_a_surface_they_can_express(name: str, most: float) -> None:
    """The opponents are real: from nine points each foretells a smooth surface."""
    configs = [
        TrainingConfig(gpus=gpus, nodes=1, local_batch=batch)
        for gpus in (1, 2, 3, 4, 8)
        for batch in (8.0, 16.0, 32.0)
    ]
    at = columns(configs)
    logs = np.array([surface(one.gpus, one.local_batch) for one in configs])
    known = [place for place, one in enumerate(configs) if one.gpus in (1, 2, 4)]
    told = baselines.LAWS[name](at[known], logs[known], at)
    assert np.median(np.abs(told - logs)) < most


def test_linear_scaling_knows_no_loss() -> None:
    """The trivial baseline multiplies one GPU's rate."""
    at = columns([TrainingConfig(gpus=gpus, nodes=1, local_batch=8.0) for gpus in (1, 4)])
    told = baselines.linear(at[:1], np.array([log(10.0)]), at)
    assert np.exp(told) == pytest.approx([10, 40])


def test_figures_are_the_definitions() -> None:
    """Errors by hand: 10 % and 50 % off; all in order; nothing defined of one value."""
    measured = np.array([10.0, 20.0, 40.0])
    found = scores.errors(np.array([11.0, 22.0, 60.0]), measured)
    assert found["mae"] == pytest.approx(23 / 3)
    assert found["medape"] == pytest.approx(10)
    assert found["mape"] == pytest.approx(70 / 3)
    assert found["spearman"] == pytest.approx(1)
    assert scores.errors(measured[:1], measured[:1])["r2"] is None


def test_the_least_error_is_the_noise_s() -> None:
    """Half of what is never wrong is within 0.6745 sds; no noise known, no figure."""
    assert scores.least_error(np.full(9, 0.02)) == pytest.approx(1.349, abs=0.001)
    assert scores.least_error(np.zeros(3)) is None


def test_chance_alone_moves_a_coverage() -> None:
    """Of 26 rows right intervals may hold 21 or all."""
    assert scores.by_chance(26) == pytest.approx([21 / 26, 1.0])


def test_the_whole_run_on_small_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unseen training: every protocol has ours and all baselines, ours is right within 10 %."""
    monkeypatch.setattr(scaling_fit, "ROUNDS", 8)  # near enough, and quick
    monkeypatch.setattr(scaling_fit, "ROWS_A_PAIR", 20)
    monkeypatch.setattr(few_points, "LESSON_SEEDS", (101,))
    known = [
        line
        for model, cluster, step in (
            ("a", "x", 0.1),
            ("b", "x", 0.5),
            ("a", "y", 0.2),
            ("b", "y", 0.9),
        )
        for line in lines(model, cluster, step)
    ]
    train = table(tmp_path / "train", known)
    test = table(tmp_path / "test", lines("c", "x", 0.3))
    told: list[float] = []
    figures = few_points.run(train, test, quick=True, progress=told.append)
    protocols = {"structured_3", "structured_6", "structured_12", "random_10", "random_20"}
    assert protocols | {"skipped"} == set(figures)
    for name in protocols:
        part: dict[str, Any] = figures[name]
        assert part["ours"]["medape"] < 10
        assert {"linear", "usl", "pollux", "gp_on_pollux", "lightgbm_transfer"} < set(
            part["baselines"]
        )
        assert part["baselines"]["linear"]["medape"] > part["ours"]["medape"]
        assert "model_unseen" in part
    assert [row["what"] for row in few_points.wanted(figures)]
    assert told


def test_a_folder_without_tables_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program says which files are lacking, and exits 1 without a traceback."""
    argv = ["throughput", "--train", str(tmp_path), "--test", str(tmp_path), "--json"]
    monkeypatch.setattr("sys.argv", argv)
    with pytest.raises(SystemExit, match="1"):
        throughput.main()
    assert tables.NAME in capsys.readouterr().err
