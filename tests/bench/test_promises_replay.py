"""Kept runs are predicted again without running: by those before them, in the shape they had."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from contrib.bench.promises.draws import Surroundings, training
from contrib.bench.promises.replay import Job, replayed
from contrib.bench.promises.run import Ran
from contrib.bench.promises.site import Site
from tests.bench.program import run_bench
from tests.model.throughput.test_beside_others import RUN, met

SUMMARY = Path(__file__).parents[1] / "golden" / "probe" / "v1.json"
QUIET = Job(cpus=4, roams=False, run=RUN)


def test_a_run_is_held_against_what_earlier_ones_say_of_its_world() -> None:
    """Alone on its cores, and beside others where only its record tells that."""
    crowd = Job(cpus=4, roams=True, run=met(2.0))
    first, second, third = replayed([QUIET, QUIET, replace(QUIET, roams=True), crowd])
    assert (first.kind, second.kind) == ("own cores, quiet", "shared cores, quiet")
    assert third.kind == "shared cores, beside others"
    assert all(one.inside for one in (first, second, third))
    assert first.missed == pytest.approx(0, abs=0.02)
    assert first.as_last == second.as_last == 0
    assert third.as_last > 0.5  # far faster than what came


def test_a_rate_outside_its_interval_is_told() -> None:
    """A run of half the rate that nothing of before foretells."""
    (told,) = replayed([QUIET, replace(QUIET, run=replace(RUN, samples_per_s=48))])
    assert not told.inside
    assert told.missed == pytest.approx(0.7, abs=0.05)


def test_nothing_is_told_of_a_first_run() -> None:
    """As nothing was promised to it."""
    assert not list(replayed([QUIET]))


def test_it_reads_what_the_benchmark_keeps(tmp_path: Path) -> None:
    """The history beside a state file; where there is none, that is said."""
    state, where = tmp_path / "state", Surroundings(others=0, constrained=True)
    site, summary = Site(Path(f"{state}.site")), json.loads(SUMMARY.read_text())
    drawn = training(Random(1), 2)
    for _ in range(2):
        ran = Ran(samples_per_s=130.0, elapsed_s=30.0, cpu_s=20.0, summaries=[summary], cpus=2)
        site.ended(site.submit(0, drawn, where), ran)
    site.close()
    done = run_bench("promises.replay", state)
    assert done.returncode == 0, done.stderr
    told, last = done.stdout.splitlines()[0], json.loads(done.stdout.splitlines()[-1])
    assert told.startswith("all: 1 predictions, 100% inside")
    assert last["figures"]["own cores, quiet"]["predictions"] == 1
    missing = run_bench("promises.replay", tmp_path / "other")
    assert missing.returncode == 1
    assert f"{tmp_path}/other keeps no history" in missing.stderr.replace(":", "")
