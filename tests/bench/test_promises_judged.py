"""A promise of two worlds is judged by the world that the run met, never by the nearer rate."""

import json
from pathlib import Path
from random import Random

from contrib.bench.promises.draws import Surroundings, training
from contrib.bench.promises.run import Ran
from contrib.bench.promises.site import Site

SUMMARY = Path(__file__).parents[1] / "golden" / "probe" / "v1.json"
ALONE, BESIDE = (Surroundings(others=others, constrained=False) for others in (0, 2))
OWN, SHARED = (100.0, 90.0, 110.0), (50.0, 42.0, 60.0)


def _set(site: Site, table: str, **values: float | None) -> None:
    with site._history.transaction() as conn:
        columns = ", ".join(f"{name} = ?" for name in values)
        conn.execute(f"UPDATE {table} SET {columns}", tuple(values.values()))


def test_a_run_that_does_not_know_its_world_is_judged_by_its_surroundings(tmp_path: Path) -> None:
    """Nobody was beside it: 55 samples/s are far outside 90 to 110, though within 42 to 60."""
    site, summary = Site(tmp_path), json.loads(SUMMARY.read_text())
    drawn = training(Random(1), 2)
    for _ in range(3):
        ran = Ran(samples_per_s=130.0, elapsed_s=30.0, cpu_s=20.0, summaries=[summary], cpus=2)
        told = site.submit(0, drawn, ALONE)
        site.ended(told, ran)
    names = ("samples_per_s", "low", "high")
    for when in ("before", "after"):
        own = {f"{when}_{name}": value for name, value in zip(names, OWN, strict=True)}
        other = {f"{when}_else_{name}": value for name, value in zip(names, SHARED, strict=True)}
        _set(site, "decisions", crowded=0, ranks=1, **own, **other)
    _set(site, "loader_runs", crowded=None, whole_samples_per_s=55.0)
    alone, beside = site.judged(told, ALONE), site.judged(told, BESIDE)
    assert alone is not None
    assert beside is not None
    assert ((alone.predicted, alone.low, alone.high), alone.beside) == (OWN, False)
    assert ((beside.predicted, beside.low, beside.high), beside.beside) == (SHARED, True)
    assert (alone.by_surroundings, beside.by_surroundings) == (True, True)
    _set(site, "loader_runs", crowded=1)
    known = site.judged(told, ALONE)
    assert known is not None
    assert (known.predicted, known.by_surroundings) == (50.0, False)
    site.close()
