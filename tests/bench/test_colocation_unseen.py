"""The benchmark of jobs never met: bad tables, traps of the tables, folds, figures, the program."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrib.bench.colocation import __main__ as colocation
from contrib.bench.colocation import baselines, gavel_tensorflow, scores, tables
from contrib.bench.colocation import lucid as colocation_lucid
from slurm_ext.core.errors import InputError

PAIR_HEAD = "gpu,date,app_a,family_a,app_b,family_b,solo_a,solo_b,co_a,co_b,rel_a,rel_b,infeasible"
PROFILE_HEAD = ",".join(("gpu", "date", "app", "family", *gavel_tensorflow.COUNTERS))
LUCID_HEAD = ",".join(
    f"{name}{side}" for side in "12" for name in ("model", "dataset", "batchsize", "amp", "speed")
)
SOLO_HEAD = "model,dataset,batchsize,amp,gpu_util,gmem_util,gmem_mib"
FAMILIES = {"a": 1, "b": 2, "c": 4, "d": 8, "e": 6}


@pytest.fixture(autouse=True)
def _small_forests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small forests: what is tried here is the road, not the figures."""
    monkeypatch.setattr(baselines, "TREES", 10)


def write(folder: Path, name: str, head: str, lines: list[str]) -> Path:
    """A table of the folder."""
    (folder / "gpu_coloc").mkdir(parents=True, exist_ok=True)
    (folder / "gpu_coloc" / name).write_text("\n".join([head, *lines]) + "\n")
    return folder


def speed(own: int, other: int) -> float:
    """Longer kernels take more."""
    return round(1 / (1 + 0.8 * other / (own + other)), 4)


def tf(folder: Path, families: str, *, gpu: str = "v100", others: str = "") -> Path:
    """Every pair of two apps a family, with at least one side of `families`."""
    apps = [(f"{name}_{size}", name, FAMILIES[name] * size) for name in FAMILIES for size in (1, 3)]
    queries = [one for one in apps if one[1] in families + others]
    pairs = [
        f"{gpu},2019,{a},{fa},{b},{fb},100,50,1,1,{speed(x, y)},{speed(y, x)},0"
        for at, (a, fa, x) in enumerate(queries)
        for b, fb, y in queries[at:]
        if fa in families or fb in families
    ]
    write(folder, gavel_tensorflow.PAIRS, PAIR_HEAD, pairs)
    profiles = [
        f"{gpu},2019,{app},{name}," + ",".join(str(k * (n + 1.0)) for n in range(12))
        for app, name, k in apps
        if name in families
    ]
    return write(folder, gavel_tensorflow.PROFILES, PROFILE_HEAD, profiles)


def lucid(folder: Path, models: str) -> Path:
    """Every pair of two configurations a model."""
    jobs = [(name, size, FAMILIES[name] * size * 4) for name in models for size in (1, 3)]
    solos = [f"{name},set,{32 * size},0,{load},{load / 2},2000" for name, size, load in jobs]
    pairs = [
        f"{a},set,{32 * m},0,{speed(10, y)},{b},set,{32 * n},0,{speed(10, x)}"
        for at, (a, m, x) in enumerate(jobs)
        for b, n, y in jobs[at:]
    ]
    write(folder, colocation_lucid.SOLOS, SOLO_HEAD, solos)
    return write(folder, colocation_lucid.PAIRS, LUCID_HEAD, pairs)


def test_the_development_protocol_leaves_each_family_out(tmp_path: Path) -> None:
    """One folder twice: ours beats the mean, all baselines stand beside it, each side is told."""
    folder = tf(tmp_path, "abcd")
    told = gavel_tensorflow.protocol(folder, folder, quick=True)
    figures = told.figures["gavel_tf"]
    assert figures["ours"]["mae"] < figures["baselines"]["mean"]["mae"]
    assert {"mean", "ridge", "random_forest", "additive_utilisation"} == set(figures["baselines"])
    assert {"job_unseen", "companion_unseen", "both_unseen"} < set(figures)
    assert [set(row) for row in told.wanted] == [{"what", "target", "got", "met"}] * 4


def test_unseen_families_and_gpus_of_another_folder(tmp_path: Path) -> None:
    """A GPU without profiles, and one with half of them, are foretold and told apart."""
    train = tf(tmp_path / "train", "abcd")
    test = tf(tmp_path / "test", "e", others="abcd")
    with (test / "gpu_coloc" / gavel_tensorflow.PAIRS).open("a") as file:
        file.write("k80,2018,a_1,a,new_1,new,60,1,1,1,0.5,0.6,0\n")
        file.write("p100,2018,a_1,a,b_1,b,60,1,1,1,0.5,0.6,0\n")
    with (test / "gpu_coloc" / gavel_tensorflow.PROFILES).open("a") as file:
        file.write("p100,2018,a_1,a," + "2.0," * 5 + "," * 6 + "\n")
    told = gavel_tensorflow.protocol(train, test, quick=True)
    ours, other = told.figures["gavel_tf"], told.figures["gavel_tf_other_gpus"]
    assert ours["ours"]["mae"] < ours["baselines"]["mean"]["mae"]
    assert other["n"] == 4
    assert {"k80", "p100"} < set(other)
    assert "companion_unseen" in ours
    assert not told.skipped


def test_traps_of_the_tables(tmp_path: Path) -> None:
    """The broken alexnet's rows, infeasible pairs and bad cells are left out and named."""
    folder = tf(tmp_path, "ab")
    path = folder / "gpu_coloc" / gavel_tensorflow.PAIRS
    before, _ = gavel_tensorflow._pairs(folder)
    with path.open("a") as file:
        file.write("v100,2018-12-27,alexnet,a,b_1,b,1,1,1,1,1.6,0.5,0\n")
        file.write("v100,2019,a_1,a,b_1,b,1,1,,,,,-1\n")
        file.write("v100,2019,a_1,a,b_1,b,1,1,1,1,0,0.5,0\n")
        file.write("v100,2019,a_1\n")
    after, skipped = gavel_tensorflow._pairs(folder)
    assert len(after) == len(before) + 1
    assert after[-1][0].at[2] == "b_1"
    assert ["rel_a" in skipped[0], "cells" in skipped[1]] == [True, True]
    assert [line.split(": ")[-1] for line in skipped[2:]] == [
        "1 infeasible pairs",
        "1 speeds of a broken solo",
    ]
    assert f"{path}:" in skipped[0]


def test_what_lacks_comes_from_elsewhere_with_longer_kernels() -> None:
    """Own counters first; another GPU's fill in, their times stretched by the solo speeds."""
    there, here = ("v100", "2019", "app"), ("k80", "2018", "app")
    profiles = {there: {"mean_kernel_us": 10.0, "ipc": 2.0}, here: {"ipc": 1.0}}
    found = gavel_tensorflow._counters(here, profiles, {there: 100.0, here: 25.0})
    assert found == {"mean_kernel_us": 40.0, "ipc": 1.0}
    assert gavel_tensorflow._counters(("k80", "2018", "none"), profiles, {}) == {}


def test_lucid_reads_nothing_of_the_pairing_and_names_jobs_without_a_solo(tmp_path: Path) -> None:
    """Solo columns alone decide; a pair whose job was never measured alone is left and named."""
    train, test = lucid(tmp_path / "train", "abcd"), lucid(tmp_path / "test", "e")
    with (test / "gpu_coloc" / colocation_lucid.PAIRS).open("a") as file:
        file.write("x,set,32,0,0.9,e,set,32,0,0.9\n")
    told = colocation_lucid.protocol(train, test, quick=True)
    figures = told.figures["lucid"]
    assert figures["n"] == 6
    assert figures["ours"]["mae"] < 0.1
    assert any("no solo row of x set 32 0" in line for line in told.skipped)
    same = colocation_lucid.protocol(train, train, quick=True)
    assert same.figures["lucid"]["ours"]["mae"] < same.figures["lucid"]["baselines"]["mean"]["mae"]


def test_figures_are_the_definitions() -> None:
    """By hand: errors, coverage, a harmful accept among those accepted by the bound, AUC."""
    measured = np.array([0.5, 0.7, 0.9, 1.0])
    told = scores.Predictions(
        measured,
        mean=np.array([0.6, 0.85, 0.8, 0.9]),
        low=np.array([0.5, 0.81, 0.7, 0.85]),
        high=np.array([0.7, 0.9, 0.85, 1.0]),
        baselines={"mean": np.full(4, 0.775)},
    )
    found = scores.scores(told)
    ours: dict[str, Any] = found["ours"]
    assert ours["mae"] == pytest.approx(0.1125)
    assert ours["coverage90"] == pytest.approx(0.5)
    assert ours["harmful_accepts"] == pytest.approx(0.5)
    assert ours["accepted_of_good"] == pytest.approx(0.5)
    assert ours["auc"] == pytest.approx(0.75)
    assert found["baselines"]["mean"]["auc"] == pytest.approx(0.5)
    none = scores.errors(measured[:0], measured[:0])
    assert none["mae"] is None


def test_what_is_known_by_definition_covers_nothing() -> None:
    """A point for an interval counts for no coverage and no width; alone it is what there is."""
    measured, low = np.array([1.0, 1.0, 0.5, 0.9]), np.array([1.0, 1.0, 0.6, 0.8])
    found = scores.bounds(low, np.array([1.0, 1.0, 0.7, 1.0]), measured)
    assert found["coverage90"] == pytest.approx(0.5)
    assert found["median_width"] == pytest.approx(0.15)
    assert scores.bounds(low[:2], low[:2], measured[:2])["coverage90"] == 1


def test_a_bad_file_is_refused_by_name(tmp_path: Path) -> None:
    """Absent, without its columns, or not gzip where its name says so."""
    path = tmp_path / "table.csv.gz"
    with pytest.raises(InputError, match="is not there"):
        tables.read(path, ["a"], dict)
    path.write_bytes(b"not gzip")
    with pytest.raises(InputError, match="cannot be read"):
        tables.read(path, ["a"], dict)
    plain = tmp_path / "table.csv"
    plain.write_text("b\n1\n")
    with pytest.raises(InputError, match="lacks columns a"):
        tables.read(plain, ["a"], dict)


def test_the_program_skips_and_names_what_the_test_folder_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its last line is one JSON object; a folder without any table is an error in one line."""
    folder = lucid(tmp_path / "tables", "abcd")
    argv = ["colocation", "--train", str(folder), "--test", str(folder), "--json", "--quick"]
    monkeypatch.setattr("sys.argv", argv)
    colocation.main()
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(told) == {"bench", "figures", "wanted"}
    assert any(gavel_tensorflow.PAIRS in line for line in told["figures"]["skipped"])
    assert "lucid" in told["figures"]
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr("sys.argv", [*argv[:4], str(tmp_path / "empty"), "--json"])
    with pytest.raises(SystemExit, match="1"):
        colocation.main()
    assert "Traceback" not in capsys.readouterr().err
