"""Choices after trials: the shape that the recommender names next is measured, N times over."""

from collections.abc import Iterator

from contrib.bench.recommend.choosers import Chosen, Learned, ours, revealed, run_of
from contrib.bench.recommend.measured import Place
from contrib.bench.recommend.tables import Question
from slurm_ext.policy.node_shapes import RatedShape, choose_nodes
from slurm_ext.policy.shape_trials import next_trial

MOST = 3  # trials


def choices(asked: Question, known: Learned) -> Iterator[tuple[Chosen, int]]:
    """The choice after 0, 1, ... MOST trials, and how many it took: one that pays is not always."""
    runs = list(revealed(asked, each=False))
    tried = {(asked.here.gpu, asked.here.each, 1)}
    shapes = known.shapes(asked, runs)
    for _ in range(MOST + 1):
        yield ours(asked, shapes), len(tried) - 1
        place = _next(asked, shapes)
        if place is not None and (place.gpu, place.each, place.nodes) not in tried:
            tried.add((place.gpu, place.each, place.nodes))
            rate = asked.truth[f"{place.each}x{place.gpu}", place.nodes]
            runs.insert(0, run_of(place, asked.batch, rate))
            shapes = known.shapes(asked, runs)


def _next(asked: Question, shapes: list[RatedShape]) -> Place | None:
    choice = choose_nodes(shapes, asked.goal)
    trial = next_trial(choice.every, asked.goal, choice.cheapest)
    if trial is None:
        return None
    shape = trial.shape.shape
    return Place(shape.node.gpu, shape.node.gpus, shape.nodes)
