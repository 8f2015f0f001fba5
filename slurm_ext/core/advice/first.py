"""Facts of a training in, ordered advice out; nothing below a floor. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from slurm_ext.core.advice.advice import WORTH, Advice, ordered
from slurm_ext.core.advice.facts import TrainingFacts
from slurm_ext.core.advice.loader import loader_advice
from slurm_ext.core.advice.options import option_of
from slurm_ext.core.advice.ranks import rank_advice

EXPOSED = 0.15  # of a step: the same of communication, which is measured less exactly
BUSY = 0.60  # of an accelerator's time: below it a larger step costs nothing
LEAST_S = 40.0  # of a training: a shorter one has shown its beginning alone


def first_advice(facts: TrainingFacts) -> list[Advice]:
    """Advice that is worth following, the first one first; empty where nothing is to be gained."""
    if facts.measured_s < LEAST_S or facts.step_s <= 0:
        return []
    every = (*loader_advice(facts), *rank_advice(facts), *_accelerator(facts))
    worth = [advice for advice in every if advice.removable_s >= _floor(advice.word) * facts.step_s]
    loader = facts.loader
    if loader is not None and loader.stays:
        worth = [
            advice for advice in worth if not advice.action.startswith(("more_workers", "load_in"))
        ]
    return [_complete(advice, facts) for advice in ordered(worth)]


def _complete(advice: Advice, facts: TrainingFacts) -> Advice:
    """The advice with its share of the step and the option to set."""
    share = min(1.0, advice.removable_s / facts.step_s)
    return replace(advice, share=share, option=option_of(advice, facts.frameworks))


def _floor(word: str) -> float:
    return EXPOSED if word == "network" else WORTH


def _accelerator(facts: TrainingFacts) -> Iterator[Advice]:
    """Steps too small for the GPU."""
    busy = facts.accelerator_busy
    own_s = facts.loop_s - _between_ranks_s(facts)
    if busy is not None and busy * facts.step_s < BUSY * own_s:
        yield Advice(
            word="idle",
            action="larger_batch",
            next="a larger batch, then several ranks to a GPU: it has little to do",
            removable_s=own_s - busy * facts.step_s,
        )


def _between_ranks_s(facts: TrainingFacts) -> float:
    """Seconds of a step that other advice stands for."""
    ranks = facts.ranks
    return 0.0 if ranks is None else min(facts.loop_s, ranks.exposed_s + ranks.skew_s)
