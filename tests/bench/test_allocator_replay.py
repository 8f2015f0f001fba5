"""The replay on Synergy's tables: the unusable is named, and the figures are the policy's."""

import json
import subprocess
from pathlib import Path

import pytest

from contrib.bench.allocator import __main__ as allocator_replay
from contrib.bench.allocator.dynamic import dynamic
from contrib.bench.allocator.static import static
from contrib.bench.allocator.tables import SHARE, by_row, class_of, mixes, read
from slurm_ext.core.errors import InputError
from tests.bench.program import run_bench

TESTS = Path(__file__).parents[1]
FLAWED = sorted((TESTS / "bad_input" / "synergy").iterdir())
UNUSABLE = sorted((TESTS / "bad_input" / "synergy_unusable").iterdir())
RATES = {"alexnet": (0.3, 1.0, 2.9), "bert": (1.0, 1.0, 1.0), "deepspeech": (0.3, 1.0, 1.0)}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """One model of each class, measured at 1, 3 and 12 cores and two sizes of memory."""
    lines = ["model,cpus_per_gpu,mem_gb_per_gpu,rel_throughput"]
    for model, rates in RATES.items():
        for cores, rate in zip((1, 3, 12), rates, strict=True):
            lines += [f"{model},{cores},20.83,0.1", f"{model},{cores},62.5,{rate}"]
    path = tmp_path / "synergy_cpu_sensitivity.csv"
    path.write_text("\n".join(lines))
    return path


def run(*args: str | Path) -> "subprocess.CompletedProcess[str]":
    """The benchmark as people start it."""
    return run_bench("allocator", *args)


@pytest.mark.parametrize("path", FLAWED, ids=lambda path: path.stem)
def test_a_flawed_cell_is_named_and_the_rest_is_used(path: Path) -> None:
    """The file and line, or the model, of everything left out; never a made-up rate."""
    told = read([path])
    assert told.curves["alexnet"] == {1: 0.3, 3: 1.0, 6: 1.75}
    assert any(line.startswith((path.name, "res18")) for line in told.skipped)
    assert 0.1 not in told.curves.get("res18", {}).values()
    assert all(rate > 0 for curve in told.curves.values() for rate in curve.values())


@pytest.mark.parametrize("path", UNUSABLE, ids=lambda path: path.stem)
def test_an_unusable_table_is_an_error_that_names_it(path: Path) -> None:
    """One line, exit 1, no traceback."""
    with pytest.raises(InputError, match=path.name):
        read([path])
    told = run("--data", path)
    assert told.returncode == 1
    assert told.stderr.count("\n") == 1
    assert path.name in told.stderr


def test_a_missing_file_is_named() -> None:
    """As any other that cannot be read."""
    with pytest.raises(InputError, match=r"nowhere\.csv"):
        read([Path("nowhere.csv")])


def test_a_placeholder_column_is_left_out(table: Path) -> None:
    """The measured column is used although the placeholder comes first."""
    told = read([table.parent])
    assert told.curves["alexnet"] == {1: 0.3, 3: 1.0, 12: 2.9}
    assert "alexnet: 20.83 GB is 0.1 throughout: a placeholder" in told.skipped


def test_models_that_no_class_names_are_placed_by_their_curve() -> None:
    """One that cores do not help is like the language models, another like the image models."""
    assert class_of("unheard-of", {1: 1.0, 3: 1.0}) == "language"
    assert class_of("unheard-of", {1: 0.5, 3: 1.0}) == "image"
    assert class_of("m5", {1: 1.0, 3: 1.0}) == "speech"


def test_classes_without_a_model_are_left_out_of_the_mixes() -> None:
    """A table of image models only makes mixes of these; one of none is an error."""
    weights = {"image": 0.2, "language": 0.8}
    drawn = list(mixes({"image": ["res18"]}, weights, count=3, jobs=2, seed=1))
    assert drawn == [["res18", "res18"]] * 3
    with pytest.raises(InputError, match="no model of image, language"):
        next(mixes({"speech": ["m5"]}, weights, count=1, jobs=1, seed=1))


def test_rows_count_as_cores_in_the_other_reading() -> None:
    """The rows after the share's are one core more each; the share stays what it is."""
    assert by_row({1: 0.3, SHARE: 1.0, 12: 2.9}) == {1: 0.3, SHARE: 1.0, SHARE + 1: 2.9}


def test_every_division_of_the_replay_is_optimal_and_fair(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Integer programming finds nothing better; nobody is below his share, in sum or alone."""
    monkeypatch.setattr(allocator_replay, "QUICK", (12, 12, 2))
    monkeypatch.setattr(allocator_replay, "costs", lambda repeats: {})
    monkeypatch.setattr("sys.argv", ["allocator", "--data", str(table), "--quick"])
    allocator_replay.main()
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert line["bench"] == "allocator"
    for by_mix in line["figures"]["static"].values():
        for scores in by_mix.values():
            assert scores["fair"]["optimum"]["largest_loss"] < 1e-6
            assert scores["fair"]["worst_job_ratio"] > 1 - 1e-6
            assert scores["fair"]["min"] > -1e-6
            assert scores["fair"]["mean"] <= scores["free"]["mean"] + 1e-6
    for row in line["wanted"]:
        assert set(row) == {"what", "target", "got", "met"}


def test_jobs_that_nothing_helps_are_hardly_disturbed(tmp_path: Path) -> None:
    """A table of flat curves: no gain, and within 2 % of even with every change charged."""
    table = tmp_path / "flat.csv"
    rows = [f"bert,{cores},62.5,1.0" for cores in (1, 3, 12)]
    table.write_text("\n".join(["model,cpus_per_gpu,mem_gb_per_gpu,rel_throughput", *rows]))
    for scores in dynamic(read([table]), dict, seeds=2).values():
        assert scores["over_even"]["makespan"]["max"] < 2
        assert scores["over_even"]["throughput"]["min"] > -2
    for scores in static(read([table]), dict, 2, 2).values():
        assert abs(scores["fair"]["mean"]) < 1e-9


def test_changes_cost_something_and_dividing_anew_for_nothing_is_the_mark(table: Path) -> None:
    """What the exact division would give, free of charge, is told and ours is no better."""
    for scores in dynamic(read([table]), dict, seeds=2).values():
        for one in (scores["over_even"], scores["over_fixed"]):
            assert one["throughput"]["mean"] < one["unbound_throughput"]
            assert one["makespan"]["mean"] > one["unbound_makespan"]
