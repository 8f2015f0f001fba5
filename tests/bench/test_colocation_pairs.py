"""The co-location benchmark's completion and NTUA parts: honest draws, bad tables, neighbours."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from contrib.bench.colocation import gavel_completion as completion
from contrib.bench.colocation import gavel_tables as gavel
from contrib.bench.colocation import new_gpu_features as new_gpu
from contrib.bench.colocation.completion_model import completed
from contrib.bench.colocation.ntua import gaussian_process as ntua_process
from contrib.bench.colocation.ntua import model as ntua_model
from contrib.bench.colocation.ntua import protocol as ntua
from contrib.bench.colocation.ntua import scenario_names as ntua_names
from contrib.bench.colocation.ntua import tables as ntua_table
from slurm_ext.core.errors import InputError

JOBS = [(f"m{number // 2}", 16 * (1 + number % 2)) for number in range(8)]


def pairs(folder: Path, gpu: str, *, bad: str = "") -> Path:
    """A GPU's table of eight jobs whose speeds are products; one pair does not fit."""
    (folder / "gpu_coloc").mkdir(parents=True, exist_ok=True)
    path = folder / "gpu_coloc" / f"gavel_pytorch_pairs_{gpu}.csv"
    lines = [",".join(gavel.COLUMNS[:9]) + ",co_a,co_b,rel_a,rel_b,infeasible"]
    for a, (model_a, size_a) in enumerate(JOBS):
        for b, (model_b, size_b) in enumerate(JOBS[a:], a):
            speeds = (0.9 - 0.05 * a - 0.02 * b, 0.9 - 0.05 * b - 0.02 * a)
            names = f"{gpu},j{a},{model_a},{size_a},j{b},{model_b},{size_b},{10 + a},{10 + b},1,1"
            fits = (a, b) != (6, 7)
            lines.append(names + (f",{speeds[0]},{speeds[1]},0" if fits else ",,,1"))
    path.write_text("\n".join([*lines, *([bad] if bad else [])]) + "\n")
    return path


def test_what_is_revealed_is_not_scored(tmp_path: Path) -> None:
    """No pair is revealed in one direction and scored in the other; what does not fit, neither."""
    table, _ = gavel.table(pairs(tmp_path, "p100"))
    for seed in range(5):
        drawn = completion._draw(table, (), 0.3, seed)
        revealed, queries = (
            {frozenset(pair) for pair in side} for side in (drawn.revealed, drawn.queries)
        )
        assert not revealed & queries
        assert len(drawn.revealed) + len(drawn.queries) == len(table.speeds)
        assert frozenset({"j6", "j7"}) not in revealed | queries


def test_a_gpu_is_not_learnt_from_itself(tmp_path: Path) -> None:
    """Where the training folder has the GPU too, its table there is left alone."""
    pairs(tmp_path, "p100")
    with pytest.raises(InputError, match="no other GPU"):
        completion.protocol(tmp_path, tmp_path, quick=True)


def test_a_folder_without_tables_is_named(tmp_path: Path) -> None:
    """The harness tells which file it missed."""
    for module in (completion, ntua):
        with pytest.raises(InputError, match="_coloc"):
            module.protocol(tmp_path, tmp_path, quick=True)


@pytest.mark.parametrize(
    "bad",
    [
        "p100,x",
        "p100,j0,m0,1,j1,m0,1,nan,1,1,1,0.5,0.5,0",
        "p100,j0,m0,1,j1,m0,1,1,1,1,1,-0.5,0.5,0",
    ],
)
def test_a_bad_row_is_left_out_by_line(tmp_path: Path, bad: str) -> None:
    """The rest of the table counts."""
    table, skipped = gavel.table(pairs(tmp_path, "p100", bad=bad))
    assert len(table.pairs) == 36
    assert len(skipped) == 1
    assert ":38:" in skipped[0]


def test_a_gpu_like_another_borrows_from_it(tmp_path: Path) -> None:
    """With few pairs revealed, what another GPU shows of the rest counts as far as it fits."""
    one, other = (gavel.table(pairs(tmp_path, gpu))[0] for gpu in ("k80", "p100"))
    drawn = completion._draw(one, (other,), 0.4, 0)
    mean, low, high = completed(drawn)
    measured = np.array([one.speeds[pair] for pair in drawn.queries])
    assert np.abs(mean - measured).mean() < 0.02
    assert (low < mean).all()
    assert (mean < high).all()


def test_without_any_pair_the_other_gpus_answer(tmp_path: Path) -> None:
    """Of the same kind more than of another."""
    tables = {g: gavel.table(pairs(tmp_path, g))[0] for g in ("k80", "p100", "v100")}
    queries = list(tables["k80"].speeds)
    mean, low, high = new_gpu.unseen(tables["k80"], (tables["p100"], tables["v100"]), queries)
    assert np.corrcoef(mean, [tables["p100"].speeds[pair] for pair in queries])[0, 1] > 0.9
    assert ((low < mean) & (mean < high)).all()


@pytest.mark.parametrize(
    ("name", "category", "expected"),
    [
        ("Baseline0", "Baseline", [0, 0, 0]),
        ("2_iBench_CPU_pods", "CPU", [2, 0, 0]),
        ("1_stress-ng_l3_pod", "L3", [0, 1, 0]),
        ("1_iBench_CPU_pod_3_stress-ng_l3_pods", "Other", [1, 3, 0]),
        ("1xCPU_2xmemBW", "Mix", [1, 0, 2]),
        ("CPU2_L3_1", "Mix", [2, 1, 0]),
        ("iBench_CPU_pod_and_iBench_memBW_pod", "Mix", [1, 0, 1]),
        ("Mix1_2_CPU_1_CPU", "Other", [3, 0, 0]),
    ],
)
def test_neighbours_are_read_from_the_scenarios_name(
    name: str, category: str, expected: list[float]
) -> None:
    """Each kind with its number."""
    row = {"Interference_Name": name, "Interference_Category": category}
    assert ntua_names.neighbours(row) == expected


@pytest.mark.parametrize("name", ["mix_4", "1_CPU_1_L2", "CPU_2_3", "4_iBench_L2_pods"])
def test_a_name_that_does_not_tell_all_is_not_nobody(name: str) -> None:
    """It is not known who is there, and counters alone answer."""
    row = {"Interference_Name": name, "Interference_Category": "Other"}
    assert np.isnan(ntua_names.neighbours(row)).all()


def test_the_label_tells_where_the_name_does_not_count() -> None:
    """A name of kinds without numbers, beside a label with them."""
    row = {"Interference_Name": "CPU_L3_mix", "Interference_Category": "Mix"}
    row["Scenario_Label"] = "CPU2_L3_3"
    assert ntua_names.neighbours(row) == [2, 3, 0]


def runs(folder: Path, campaigns: tuple[str, ...] = ("X_1", "X_2", "Y_1")) -> ntua_table.Runs:
    """Campaigns whose speeds and one counter follow the neighbours."""
    rng = np.random.default_rng(3)
    (folder / "cpu_coloc").mkdir(parents=True, exist_ok=True)
    head = [
        "FolderID",
        "Replicas",
        "Interference_Name",
        "Interference_Category",
        "offered_rps",
        "norm_perf_p99",
        "mean_Sys_IPC",
        "mean_Sys_L3MISS",
    ]
    lines = [",".join(head)]
    for campaign in campaigns:
        for rate in (500, 1000, 2000):
            for many in range(4):
                for kind, effect in (("CPU", 0.8), ("l3", 0.6)):
                    speed = effect**many * float(np.exp(rng.normal(0, 0.03)))
                    name, what = (f"{many}_i_{kind}_pods", kind) if many else ("B", "Baseline")
                    told = speed if many else 1.0
                    counters = f"{speed + rng.normal(0, 0.02)},{0.1 * many}"
                    lines.append(f"{campaign},1,{name},{what},{rate},{told},{counters}")
    path = folder / "cpu_coloc" / ntua_table.FILE
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    found, skipped = ntua_table.runs(folder)
    assert skipped == []
    made: ntua_table.Runs = found
    return made


def test_unseen_campaigns_are_foretold(tmp_path: Path) -> None:
    """From counters and from who is beside; who has nobody is at its own speed."""
    every = runs(tmp_path)
    for _, learn, ask in ntua_model.folds(every)["campaigns"]:
        queries = every.take(ask)
        told = ntua_model.predict(every.take(learn), queries, trees=10).mean
        assert (told[queries.alone] == 1.0).all()
        assert np.abs(told - queries.speed).mean() < 0.08


def test_the_product_is_of_what_each_kind_does_alone(tmp_path: Path) -> None:
    """A mix never seen: two of one kind and one of another."""
    every = runs(tmp_path)
    mixed = every.take(every.beside[:, 0] == 2)
    mixed.beside[:, 1] = 1
    told = ntua_model.product(every, mixed)
    assert told == pytest.approx(np.full(len(told), 0.8**2 * 0.6), rel=0.1)


def test_sister_campaigns_tell_first_what_one_kind_does(tmp_path: Path) -> None:
    """Where another family's neighbours hurt less, those of the own family are believed."""
    every = runs(tmp_path)
    every.speed[(every.family == "Y") & (every.beside[:, 0] == 2)] = 0.9
    queries = every.take((every.campaign == "X_1") & (every.beside[:, 0] == 2))
    told = ntua_model.product(every, queries, apart=True)
    assert told == pytest.approx(np.full(len(told), 0.8**2), rel=0.12)


def test_who_is_not_named_is_told_by_counters(tmp_path: Path) -> None:
    """Not worse than by half of what speeds differ, and with a finite interval."""
    every = runs(tmp_path)
    _, learn, ask = ntua_model.folds(every)["campaigns"][0]
    queries = ntua_model.blind(every.take(ask))
    told = ntua_model.predict(every.take(learn), queries, trees=10)
    assert np.abs(told.mean - queries.speed).mean() < every.speed.std() / 2
    assert np.isfinite(told.scale).all()


def test_the_process_goes_on_beyond_what_was_met(tmp_path: Path) -> None:
    """More neighbours than ever slow further down, and it is told that this is far away."""
    every = runs(tmp_path)
    many = every.beside.sum(axis=1)
    learn, near, far = (every.take(rows) for rows in (many <= 2, many == 2, many == 3))
    (told, sds), (at_two, sds_there) = (ntua_process.process(learn, ask) for ask in (far, near))
    assert told.mean() < at_two.mean() - 0.15
    assert sds.min() > sds_there.max()


def test_what_was_missed_makes_the_interval() -> None:
    """Nine of ten misses fit into it, and it is the wider the less is known."""
    told = ntua_model.SpeedPrediction(np.full(2, 0.5), np.array([0.2, 0.6]))
    low, high = ntua_model.Residuals(np.linspace(-1, 1, 101), np.zeros(101), 101).ends(told)
    assert high - told.mean == pytest.approx(0.9 * told.scale)
    assert low == pytest.approx(2 * told.mean - high)
    assert told.scale[1] > 2 * told.scale[0]


def test_folds_share_no_campaign(tmp_path: Path) -> None:
    """Campaigns named alike go together in the harder protocol."""
    every = runs(tmp_path)
    made = ntua_model.folds(every)
    assert [name for name, _, _ in made["families"]] == ["X", "Y"]
    for _, learn, ask in made["campaigns"]:
        assert not set(every.campaign[learn]) & set(every.campaign[ask])
