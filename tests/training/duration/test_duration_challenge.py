"""A model of run times is promoted where it foretells later jobs, and answers live as it learnt."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lightgbm")

from slurm_ext.core.errors import ModelError
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views.finished_jobs import COLUMNS, finished_since, newest_finished
from slurm_ext.model.duration.artifact import ABOUT, TYPED, load, serialize
from slurm_ext.model.duration.predictor import DurationPredictor, load_predictor
from slurm_ext.model.duration.query import SITE, DurationQuery, query_of_run
from slurm_ext.model.duration.state import DurationState
from slurm_ext.training.duration import challenge as duration_challenge
from slurm_ext.training.duration.challenge import FEWEST, challenge, finished_jobs
from slurm_ext.training.duration.fit import FinishedJob, features, fit
from slurm_ext.training.promotion import promote

START_S = 1.7e9
Row = dict[str, Any]


def rows(count: int = 900, first: int = 0) -> list[Row]:
    """Ended jobs: users differ by ten, CPUs (no name of anything) by ten, the rest is noise."""
    random = np.random.default_rng(first)
    return [_row(number, random) for number in range(first, first + count)]


def _row(number: int, random: np.random.Generator) -> Row:
    user, large = int(random.integers(3)), int(random.integers(2))
    lasted = float(30 * 10.0 ** (user + large) * random.lognormal(sigma=0.3))
    submit_s = START_S + 120.0 * number
    run = {"id": number + 1, "cluster": "c", "job_id": number, "restart": 0}
    run |= {"user": f"u{user}", "job_name": "train", "account": None, "partition": "gpu"}
    run |= {
        "cpus": 4 * 10**large,
        "num_nodes": 1,
        "gpus": 1,
        "mem_bytes": None,
        "time_limit_s": 86400.0,
    }
    times = {"submit_s": submit_s, "start_s": submit_s, "end_s": submit_s + lasted}
    return {**run, **times, "elapsed_s": lasted}


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """Few trees: what is tested is what becomes of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duration_challenge, "fit", partial(fit, rounds=60))
        yield


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of a site that trained once."""
    folder = tmp_path_factory.mktemp("models")
    assert challenge(finished_jobs(rows()), folder).promoted
    return folder


@contextmanager
def history_of(path: Path, runs: list[Row], node: str = "n1") -> Iterator[History]:
    """A history with these runs, of one node each."""
    with open_history(path) as history:
        insert(history, runs, node)
        yield history


def insert(history: History, runs: list[Row], node: str = "n1") -> None:
    """Add runs as that node tells them."""
    for run in runs:
        full = {**run, "record_id": f"{run['id']}-{node}", "node": node, "state": "COMPLETED"}
        full |= {"source": "epilog", "ingested_s": run["end_s"]}
        marks = ", ".join("?" * len(full))
        sql = f"INSERT INTO runs ({', '.join(full)}) VALUES ({marks})"
        history.conn.execute(sql, list(full.values()))


def test_better_than_the_history_is_promoted(models: Path) -> None:
    """Its scores on later jobs are told with the model, which `current` points to."""
    about = load(models / "duration" / "current").about
    scores = about["scores"]
    assert scores["ours"]["mae"] < min(scores["history"]["mae"], scores["median"]["mae"])
    assert 0.8 <= scores["ours"]["coverage90"] <= 1.0
    assert about["window_s"][0] == START_S


def test_few_jobs_are_no_model(tmp_path: Path) -> None:
    """The report says how many there are; nothing is written."""
    report = challenge(finished_jobs(rows(40)), tmp_path / "models")
    assert (report.promoted, report.runs) == (False, 40)
    assert str(FEWEST) in report.why
    assert not (tmp_path / "models").exists()


def test_a_model_that_foretells_no_better_stays_out(tmp_path: Path) -> None:
    """Lengths that nothing explains: the median serves as well, and there is no model."""
    random = np.random.default_rng(7)
    noise = [
        {**run, "end_s": run["submit_s"] + lasted, "elapsed_s": lasted}
        for run, lasted in zip(rows(), random.lognormal(5, 2, 900).tolist(), strict=True)
    ]
    report = challenge(finished_jobs(noise), tmp_path)
    assert not report.promoted
    assert "not below the naive" in report.why


def test_the_serving_model_is_judged_by_what_came_later(models: Path, tmp_path: Path) -> None:
    """Nothing new: it stays; and it is held against jobs that it has not learnt from only."""
    own = shutil.copytree(models, tmp_path / "models", symlinks=True)
    report = challenge(finished_jobs(rows()), own)
    assert not report.promoted
    assert "since the serving model" in report.why
    more = challenge(finished_jobs(rows() + rows(700, first=900)), own)
    assert more.scores is not None
    assert more.scores["incumbent"]["mae"] == pytest.approx(more.scores["ours"]["mae"], rel=0.2)


def test_a_share_of_the_jobs_is_judged_as_submissions_come() -> None:
    """They have no limit, and nothing of those that had the same limit; the others are whole."""
    table = duration_challenge._table(finished_jobs(rows(600)))
    limits = table.rows[:, SITE.features.index("log_time_limit_s")]
    ended = table.rows[:, SITE.features.index("user+partition+time_limit_s:ended")]
    without = np.isnan(limits)
    assert 0.25 < without.mean() < 0.42
    assert set(ended[without]) == {0.0}
    assert (ended[~without][50:] > 0).all()


KINDS = {"debug": (300.0, 120.0), "train": (86400.0, 3e4), "big": (259200.0, 1.5e5)}
"""Limit and usual run time in s, by the job's name."""
PAUSE_S = 1200.0  # between two submissions of them


def of_kinds(count: int) -> list[Row]:
    """Ended jobs whose limit and memory follow from their names."""
    random = np.random.default_rng(3)
    jobs = []
    for number in range(count):
        name = str(random.choice([*KINDS]))
        limit_s, usual_s = KINDS[name]
        lasted = min(limit_s, float(usual_s * random.lognormal(sigma=0.3)))
        run = {**_row(number, random), "job_name": name, "cpus": 4, "account": "a"}
        run |= {"mem_bytes": limit_s * 1e6, "time_limit_s": limit_s, "elapsed_s": lasted}
        submit_s = START_S + PAUSE_S * number
        jobs.append({**run, "submit_s": submit_s, "end_s": submit_s + lasted})
    return jobs


def test_a_job_that_names_no_limit_is_foretold_as_one_that_names_the_sites_own() -> None:
    """Where limit and memory follow from the job's name, their absence tells nothing."""
    jobs = of_kinds(1000)
    ended = finished_jobs(jobs)
    table = features(SITE, ended, ended_only=True, typed=True)
    model = fit(SITE, table, np.log([job.duration_s or 1.0 for job in ended]), rounds=120)
    live, now_s = DurationState(SITE), START_S + PAUSE_S * len(jobs)
    for one in sorted(ended, key=lambda one: one.end_s or 0.0):
        if (one.end_s or 0.0) < now_s:
            live.lived(one.asked, one.end_s or 0.0, one.duration_s)
    for name, (limit_s, _) in KINDS.items():
        of_name = {"job_name": name, "mem_bytes": limit_s * 1e6, "time_limit_s": limit_s}
        whole = query_of_run({**jobs[0], **of_name, "submit_s": now_s})
        assert whole is not None
        typed = replace(whole, account=None, mem_bytes=None, time_limit_s=None)
        told = model.predict(np.array([live.row(one.submission()) for one in (typed, whole)]))
        assert abs(np.subtract(*told.log_median)) < log(1.25)
        assert abs(np.subtract(*told.log_high)) < log(2.5)


def test_a_model_of_an_earlier_release_is_no_incumbent(models: Path, tmp_path: Path) -> None:
    """It has learned from no job without a limit: the next training replaces it at once."""
    old = load(models / "duration" / "current")
    about = {name: value for name, value in old.about.items() if name != TYPED}
    promote(tmp_path / "duration", "duration", serialize(replace(old, about=about)), lambda _: None)
    report = challenge(finished_jobs(rows()), tmp_path)
    assert report.promoted
    assert load(tmp_path / "duration" / "current").about[TYPED]


def test_a_damaged_model_is_replaced(tmp_path: Path) -> None:
    """It serves nobody, and the next training installs its own in its place."""
    first = challenge(finished_jobs(rows()), tmp_path)
    broken = tmp_path / "duration" / str(first.model) / ABOUT
    broken.write_text("{}")
    with pytest.raises(ModelError, match="train again"):
        load_predictor(tmp_path, None)
    again = challenge(finished_jobs(rows()), tmp_path)
    assert again.model == first.model
    assert load_predictor(tmp_path, None) is not None


def test_asked_live_it_answers_as_it_was_scored(models: Path, tmp_path: Path) -> None:
    """What training saw of a job at its submission is what a live memory sees then."""
    every = rows()
    asked = every[700]
    before = [run for run in every if run["end_s"] <= asked["submit_s"]]
    lengths = load_predictor(models, None)
    assert lengths is not None
    with history_of(tmp_path / "history.db", before) as history:
        lengths.take(newest_finished(history, 10_000))
    job = query_of_run(asked)
    assert job is not None
    (told,) = lengths.predict([job])
    known = [
        FinishedJob(one.asked, one.end_s, one.duration_s) for one in finished_jobs(every[:701])
    ]
    row = features(SITE, known, ended_only=True)[700:701]
    logs = load(models / "duration" / "current").durations.predict(row)
    assert told.mean_s == pytest.approx(float(np.exp(logs.log_mean[0])))
    assert told.median_s == pytest.approx(float(np.exp(logs.log_median[0])))
    assert told.like == ("user", "job_name", "gpus")
    assert told.low_s < told.mean_s < told.high_s


def test_a_job_of_two_nodes_is_taken_once(models: Path, tmp_path: Path) -> None:
    """Also where the second node's record comes after a look; new jobs are taken as they come."""
    lengths = load_predictor(models, None)
    assert lengths is not None
    job = DurationQuery(submit_s=START_S + 9e6, user="u1", job_name="train", gpus=1)
    with history_of(tmp_path / "history.db", rows(1)) as history:
        lengths.take(newest_finished(history, 10))
        twice = [{**run, "id": 2} for run in rows(1)]
        insert(history, [*twice, {**rows(1)[0], "id": 3, "job_id": 77}], node="n2")
        lengths.take(finished_since(history, lengths.last_id))
        assert list(finished_since(history, lengths.last_id)) == []
    assert lengths.last_id == 3
    (told,) = lengths.predict([DurationQuery(**{**_asked(job), **_names(rows(1)[0])})])
    assert told.runs == 2


def test_anothers_array_leaves_a_user_his_own_run_times(models: Path, tmp_path: Path) -> None:
    """However many short tasks ended last, a job is foretold from its user's own ones."""
    every = rows(300)
    last_s = max(run["end_s"] for run in every)
    own = next(run for run in every if run["user"] == "u2")
    tasks = [
        {**own, "id": 1000 + at, "job_id": 1000 + at, "user": "eve", "job_name": "sweep"}
        | {"submit_s": last_s, "start_s": last_s, "end_s": last_s + 60 + at, "elapsed_s": 60.0}
        for at in range(600)
    ]
    lengths = load_predictor(models, None)
    assert lengths is not None
    with history_of(tmp_path / "history.db", [*every, *tasks]) as history:
        lengths.take(newest_finished(history, 600))
    job = query_of_run({**own, "submit_s": last_s + 700})
    assert job is not None
    (told,) = lengths.predict([job])
    assert told.like[:2] == ("user", "job_name")
    assert told.median_s > 600


def _asked(job: DurationQuery) -> Row:
    return {name: getattr(job, name) for name in ("submit_s", "job_name")}


def _names(run: Row) -> Row:
    return {name: run[name] for name in ("user", "job_name", "gpus")}


def test_nobody_known_is_told_widely(models: Path) -> None:
    """Without any history a model answers, by no runs; a limit is never told to be passed."""
    lengths = load_predictor(models, None)
    assert lengths is not None
    free, limited = lengths.predict(
        [DurationQuery(submit_s=START_S), DurationQuery(submit_s=START_S, time_limit_s=60.0)]
    )
    assert (free.runs, free.like) == (0, ())
    assert limited.high_s == 60.0
    assert lengths.predict([]) == []


def test_impossible_rows_are_left_out(models: Path) -> None:
    """No times, ends before submissions, no numbers: nothing is learnt, nothing fails."""
    lengths = load_predictor(models, None)
    assert lengths is not None
    nothing = dict.fromkeys(COLUMNS)
    lengths.take([nothing, {**rows(1)[0], "end_s": 1.0}, {**rows(1)[0], "elapsed_s": -1.0}])
    lengths.take([{**rows(1)[0], "gpus": float("inf"), "elapsed_s": float("nan")}])
    (told,) = lengths.predict([DurationQuery(submit_s=START_S)])
    assert told.runs == 0


def test_a_new_model_keeps_the_memory(models: Path) -> None:
    """A swap does not read the history again; no promoted model is none."""
    lengths = load_predictor(models, None)
    assert lengths is not None
    lengths.take(rows(20))
    artifact = load(models / "duration" / "current")
    swapped = DurationPredictor(artifact, "another", lengths.past)
    assert swapped.last_id == 20
    assert load_predictor(models, swapped) is not swapped
    assert load_predictor(models / "none", swapped) is None


def test_bounds_follow_what_ends(models: Path) -> None:
    """Jobs come to run 100 times longer or shorter than the model learnt: more stay inside."""
    lengths = load_predictor(models, None)
    assert lengths is not None
    random = np.random.default_rng(3)
    wild = [
        {**run, "end_s": run["submit_s"] + lasted, "elapsed_s": lasted}
        for run, lasted in zip(rows(700, 900), random.lognormal(6, 3, 700).tolist(), strict=True)
    ]
    asked = [job for job in map(query_of_run, wild[500:]) if job is not None]
    lengths.take(rows())
    narrow = _inside(lengths, asked, wild[500:])
    lengths.take(wild[:500])
    assert _inside(lengths, asked, wild[500:]) > 1.25 * narrow


def _inside(lengths: DurationPredictor, asked: list[DurationQuery], runs: list[Row]) -> int:
    told = zip(lengths.predict(asked), runs, strict=True)
    return sum(one.low_s <= run["elapsed_s"] <= one.high_s for one, run in told)
