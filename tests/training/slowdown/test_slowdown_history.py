"""What runs together teach, and whether that serves."""

from itertools import product
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from slurm_ext.core.errors import ModelError
from slurm_ext.core.gpu_sharing import CorunMeasurement, SoloProfile, SpeedBasis
from slurm_ext.core.job_keys import job_signature, user_name_key
from slurm_ext.core.records import Level
from slurm_ext.core.stats import fair_newest
from slurm_ext.history.store.store import open_history
from slurm_ext.history.views.shared_runs import RUN_COLUMNS
from slurm_ext.model.artifact_store import current
from slurm_ext.model.slowdown.artifact import FILE, FOLDER, load
from slurm_ext.training.challenger import TrainingVerdict
from slurm_ext.training.slowdown.challenge import FEWEST, challenge, split
from slurm_ext.training.slowdown.fit import fitted
from slurm_ext.training.slowdown.history_runs import (
    MOST_OF_USER,
    SharingHistory,
    sharing_history,
)
from slurm_ext.training.slowdown.job_embedding import traits
from slurm_ext.training.slowdown.rows import run_of
from tests.training.shared_history import JOBS, LONG_S, Site, filled, truth


def key(job: str) -> str:
    """What the history calls a job of that name."""
    made = job_signature({Level.USER_NAME: user_name_key("ada", job)})
    assert made is not None
    return made


def learn(path: Path) -> SharingHistory:
    """All that the history at `path` holds of sharing."""
    with open_history(path, read_only=True) as history:
        return sharing_history(history)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of all pairs."""
    return filled(tmp_path_factory.mktemp("shared") / "history.db")


@pytest.fixture(scope="module")
def served(whole: Path) -> tuple[TrainingVerdict, Path]:
    """What training said of it, and the folder of models."""
    models = whole.parent / "models"
    return challenge(learn(whole), models), models


def test_a_speed_is_that_of_the_time_together(tmp_path: Path) -> None:
    """Half of the run was alone: what is missing at its end was lost in the other half."""
    site = Site(tmp_path / "history.db")
    with site.open() as history:
        for _ in range(3):
            site.alone(history, "a")
        site.pair(history, "a", "b", 0.6, over=0.5)
    (row,) = learn(site.path).rows
    assert row.together.speed == pytest.approx(0.6)
    assert row.together.partners == (key("b"),)
    assert row.together.seconds == pytest.approx(0.25 * LONG_S)
    assert row.together.device == "cpu"


def test_a_gpu_is_shared_by_those_who_have_it(tmp_path: Path) -> None:
    """Another job on the node with another GPU is no company; where nobody looked: no answer."""
    site = Site(tmp_path / "history.db")
    with site.open() as history:
        for _ in range(3):
            site.pair(history, "a", "b", 1.0)
            site.pair(history, "a", "c", 0.7)
        history.conn.execute("UPDATE runs SET gpus = 1")
        history.conn.execute("UPDATE loader_runs SET gpu_model = 'NVIDIA T4'")
        history.conn.execute(
            "UPDATE corunners SET shared_gpus = iif(run % 4 IN (1, 2), '', 'GPU-1')"
        )
        history.conn.execute("UPDATE corunners SET shared_gpus = NULL WHERE run > 10")
    rows = learn(site.path).rows
    assert [row.together.partners for row in rows] == [(key("c"),)] * 2
    assert [row.together.speed for row in rows] == pytest.approx([0.7] * 2)
    assert {row.together.device for row in rows} == {"NVIDIA T4"}


@pytest.mark.parametrize(
    ("known", "measure", "rate"),
    [
        ({"samples_per_s": 5.0, "instructions": 1e9}, "samples", 5.0),
        ({"samples_per_s": float("nan"), "instructions": 1e9}, "instructions", 1e7),
        ({"instructions": -1.0, "key_script_args": 7}, "runs", 0.01),
        ({"key_script_args": 7, "state": "FAILED"}, None, None),
        ({"samples_per_s": 0.0}, None, None),
    ],
)
def test_the_best_measure_of_a_run_is_used(
    known: dict[str, Any], measure: str | None, rate: float | None
) -> None:
    """Samples of the loop, else instructions, else whole runs of the same arguments."""
    row = dict.fromkeys(RUN_COLUMNS) | {
        "run": 1,
        "user": "ada",
        "job_name": "a",
        "state": "COMPLETED",
        "elapsed_s": 100.0,
        "end_s": 1e9,
        **known,
    }
    run = run_of(row)
    assert (run.shape[0] if run else None) == measure
    assert (run.rate if run else None) == pytest.approx(rate)


def test_jobs_alone_have_their_counters_a_second(whole: Path) -> None:
    """Sums are divided by the run's time, so that long and short runs are alike."""
    solos = learn(whole).solos
    assert solos[key("a")].features["cpu_user"] == pytest.approx(50.0)


def test_what_is_no_one_measurement_is_left_out(tmp_path: Path) -> None:
    """Another shape, many nodes, an unknown overlap: no row. Slower than standing still: told."""
    site = Site(tmp_path / "history.db")
    with site.open() as history:
        site.alone(history, "a")
        for change in (
            "UPDATE runs SET cpus = 4 WHERE id = ?",
            "UPDATE runs SET num_nodes = 2 WHERE id = ?",
            "UPDATE runs SET elapsed_s = 3 WHERE id = ?",
            "UPDATE corunners SET overlap_s = NULL WHERE run = ?",
            "UPDATE corunners SET overlap_s = 9 WHERE run = ?",
            "UPDATE loader_runs SET workers = 8 WHERE run = ?",
            "UPDATE loader_runs SET samples_per_s = 1e-9 WHERE run = ?",
        ):
            site.pair(history, "a", "b", 0.9)
            history.conn.execute(
                change, (history.conn.execute("SELECT max(id) - 1 FROM runs").fetchone()[0],)
            )
    found = learn(site.path)
    assert found.rows == ()
    assert found.refused == 1


def test_pairs_not_seen_before_are_foretold(served: tuple[TrainingVerdict, Path]) -> None:
    """It beats the mean and no knowledge on later pairs, and is served from then on."""
    told, models = served
    assert told.promoted, told.why
    assert told.scores is not None
    assert told.scores["ours"]["mae"] < 0.5 * told.scores["mean"]["mae"]
    folder = current(models / FOLDER)
    assert folder is not None
    known = load(folder).slowdowns
    for job, partner in product(JOBS, JOBS):
        speed = known.speed(SoloProfile(key=key(job)), [SoloProfile(key=key(partner))])
        assert speed.evidence is SpeedBasis.PAIR
        assert speed.low <= truth(job, partner) * 1.02
        assert speed.mean == pytest.approx(truth(job, partner), abs=0.08)


def test_a_job_that_met_nobody_is_known_alone(tmp_path: Path) -> None:
    """Its counters are what sharing is foretold from."""
    site = Site(tmp_path / "history.db")
    with site.open() as history:
        site.alone(history, "h")
    found = learn(site.path)
    assert found.rows == ()
    assert found.solos[key("h")].features["cpu_user"] == pytest.approx(400.0)


def test_jobs_of_like_counters_have_like_traits() -> None:
    """However many counters there are, and whatever is not measured; flat ones say nothing."""
    rng = np.random.default_rng(4)
    solos = {}
    for number in range(12):
        load = number % 2
        features = {f"c{n}": 100.0 * (1 + 9 * load) * rng.uniform(0.9, 1.1) for n in range(6)}
        features |= {"flat": 3.0} | ({"rare": 5.0} if number == 3 else {})
        if number == 5:
            del features["c0"]
        solos[str(number)] = SoloProfile(key=str(number), features=features)
    solos["none"] = SoloProfile(key="none")
    found = traits(solos)
    assert "none" not in found
    first = [found[str(number)].vector[0] for number in range(12)]
    assert np.sign(first[::2]).tolist() == [np.sign(first[0])] * 6
    assert np.sign(first[1::2]).tolist() == [-np.sign(first[0])] * 6
    assert traits({"a": solos["1"]}) == {}


def test_a_job_that_nobody_met_is_told_by_its_counters(
    served: tuple[TrainingVerdict, Path],
) -> None:
    """Also once the model was written and read; one without counters is told in general."""
    folder = current(served[1] / FOLDER)
    assert folder is not None
    known = load(folder).slowdowns
    for load_of, expected in (("b", truth("b", "h")), ("g", truth("g", "h"))):
        new = SoloProfile(key="new", features={"cpu_user": 50.0 * (1 + JOBS.index(load_of))})
        told = known.speed(new, [known.solos[key("h")]])
        assert told.evidence is SpeedBasis.COUNTERS
        assert told.mean == pytest.approx(expected, abs=0.1)
    assert (
        known.speed(SoloProfile(key="new"), [SoloProfile(key=key("h"))]).evidence
        is SpeedBasis.PRIOR
    )


def test_few_runs_promote_nothing(tmp_path: Path) -> None:
    """One user's afternoon is no evidence."""
    path = filled(tmp_path / "history.db", list(product("ab", "cd")))
    told = challenge(learn(path), tmp_path)
    assert not told.promoted
    assert str(FEWEST) in told.why
    assert current(tmp_path) is None


def test_a_serving_model_is_judged_by_what_came_since(
    whole: Path, served: tuple[TrainingVerdict, Path]
) -> None:
    """Trained again on the same runs nothing changes: no later run says which is better."""
    serving = current(served[1] / FOLDER)
    again = challenge(learn(whole), served[1])
    assert not again.promoted
    assert "since the serving model" in again.why
    assert current(served[1] / FOLDER) == serving


def test_a_split_is_by_time(whole: Path) -> None:
    """What is scored came after all that was learnt from."""
    rows = learn(whole).rows
    older, later, _ = split(rows, None)
    ends = {id(row.together): row.end_s for row in rows}
    assert max(ends[id(one)] for one in older) < min(ends[id(one)] for one in later)


@pytest.mark.parametrize("damage", ["{", '{"format": 1}', "torn"])
def test_a_damaged_model_is_refused_by_name(
    served: tuple[TrainingVerdict, Path], tmp_path: Path, damage: str
) -> None:
    """Whoever loads it is told which file to train again."""
    folder = current(served[1] / FOLDER)
    assert folder is not None
    text = (folder / FILE).read_text()
    (tmp_path / FILE).write_text(text[:-50] if damage == "torn" else damage)
    with pytest.raises(ModelError, match=FILE):
        load(tmp_path)


def test_training_replaces_a_damaged_model(
    whole: Path, served: tuple[TrainingVerdict, Path], tmp_path: Path
) -> None:
    """It serves nobody, so whatever is better than the mean takes its place."""
    copytree(served[1], tmp_path / "models", symlinks=True)
    folder = current(tmp_path / "models" / FOLDER)
    assert folder is not None
    (folder / FILE).write_text("{")
    assert challenge(learn(whole), tmp_path / "models").promoted
    assert load(folder).slowdowns.met


def test_beside_another_users_job_what_root_measured_counts(tmp_path: Path) -> None:
    """A job's own samples/s say nothing of how hard a stranger's job is on others."""
    site = Site(tmp_path / "history.db")
    with site.open() as history:
        for _ in range(3):
            site.alone(history, "a")
        site.pair(history, "a", "b", 0.3)
        history.conn.execute("UPDATE runs SET user = 'bob' WHERE job_name = 'b'")
    assert learn(site.path).rows == ()
    with open_history(site.path) as history:
        name = {"id": 2, "name": "perf_instructions", "unit": "1", "source": "perf"}
        history.conn.execute("INSERT INTO counter_names VALUES (:id, :name, :unit, :source)", name)
        jobs = "SELECT id, 2, iif(id = 4, 8e11, 1e12) FROM runs WHERE job_name = 'a'"
        history.conn.execute(f"INSERT INTO counters {jobs}")
    (row,) = learn(site.path).rows
    assert row.together.speed == pytest.approx(0.8)  # and not 0.3
    assert row.together.owner == "ada"


def test_nobody_fills_the_table_of_slowdowns() -> None:
    """A user's oldest rows make way where others have fewer; what is pooled has a third at most."""
    mine = [_measured("mallory", number) for number in range(2 * MOST_OF_USER)]
    others = [_measured(user, 0) for user in ("ada", "bob")]
    kept = fair_newest([one.owner for one in (*mine, *others)], least=MOST_OF_USER)
    assert kept == [*range(MOST_OF_USER, 2 * MOST_OF_USER + 2)]
    hostile = [_measured("mallory", number, speed=0.02) for number in range(60)]
    honest = [_measured(user, n, speed=0.9) for user in ("ada", "bob") for n in range(60)]
    alone, among = (fitted(rows, {})[0].widths for rows in (honest, [*hostile, *honest]))
    assert among[SpeedBasis.PRIOR] >= alone[SpeedBasis.PRIOR]
    flooded = fitted([_measured("mallory", n, speed=0.02) for n in range(600)] + honest[:2], {})
    assert flooded[0].widths[SpeedBasis.PRIOR] == 1.0  # two rows of each are too few


def _measured(owner: str, number: int, speed: float = 0.7) -> CorunMeasurement:
    return CorunMeasurement(
        job=f"{owner} {number}", partners=("x",), speed=speed, seconds=60.0, owner=owner
    )
