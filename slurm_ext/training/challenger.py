"""Champion and challenger: every kind of model is fitted, scored, judged and promoted in one order.

A challenger is fitted to the older part of the data and scored on the later part, against baselines
that need no model and against the serving model. Only a challenger that beats them all is promoted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from slurm_ext.core.errors import ModelError
from slurm_ext.training.promotion import Check, promote

BETTER = 0.99  # of the serving model's error: a smaller gain is chance
COVERAGE = (0.8, 1.0)  # of a 90 % interval on later runs
CLOSE = 1e-9  # largest difference that reading a model back may make

Fitted = TypeVar("Fitted")
Scores = Mapping[str, Any]
"""By candidate: "ours", the baselines, and "incumbent" (None if no model serves)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingVerdict:
    """Result of one training: the model that serves from now on, or why none was promoted.

    `runs`: number of examples; `window_s`: the time that they span (Unix); `details`: figures that
    only this kind of model has.
    """

    promoted: bool = False
    why: str
    runs: int
    model: str | None = None
    window_s: tuple[float, float] | None = None
    scores: Scores | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Export:
    """Files of a model, and how far a folder's answers are from those of the fitted model."""

    files: Mapping[str, bytes]
    difference: Callable[[Path], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenger(Generic[Fitted]):
    """One kind of model: how it is fitted, scored and exported, and what it has to beat.

    `baselines`: by name in the scores, the reason to give where ours is not below `gain` times its
    error. Reasons are format strings of `ours` and `theirs`.
    """

    kind: str  # start of the names of its models
    folder: Path  # its `current` serves
    fit: Callable[[], Fitted]
    score: Callable[[Fitted], Scores]
    baselines: Mapping[str, str]
    export: Callable[[Fitted, Scores], Export]
    success: str = "its error on later runs is the smallest"
    metric: str = "mae"
    gain: float = 1.0

    def challenge(self, verdict: TrainingVerdict) -> TrainingVerdict:
        """Fit, score, and promote the model unless there is a veto.

        Raises ModelError if it cannot be written, or does not read back as it is.
        """
        fitted = self.fit()
        scores = self.score(fitted)
        verdict = replace(verdict, scores=scores)
        veto = self.veto(scores)
        if veto is not None:
            return replace(verdict, why=veto)
        export = self.export(fitted, scores)
        name = promote(self.folder, self.kind, export.files, reproduces(export.difference))
        why = self._text(self.success, scores, next(iter(self.baselines)))
        return replace(verdict, promoted=True, why=why, model=name)

    def veto(self, scores: Scores) -> str | None:
        """Return why the challenger must not be promoted, or None."""
        ours, incumbent = scores["ours"], scores.get("incumbent")
        error = ours[self.metric]
        for name, reason in self.baselines.items():
            if not error < self.gain * scores[name][self.metric]:
                return self._text(reason, scores, name)
        coverage = ours.get("coverage90")
        if coverage is not None and not COVERAGE[0] <= coverage <= COVERAGE[1]:
            return f"its 90 % interval holds {coverage:.0%} of later runs"
        if incumbent is not None and not error <= BETTER * incumbent[self.metric]:
            return f"its error {error:.3f} is not below the serving {incumbent[self.metric]:.3f}"
        return None

    def _text(self, text: str, scores: Scores, baseline: str) -> str:
        return text.format(ours=scores["ours"][self.metric], theirs=scores[baseline][self.metric])


def reproduces(difference: Callable[[Path], float]) -> Check:
    """Return a check that raises ModelError unless a folder answers as the fitted model does."""

    def check(folder: Path) -> None:
        off = difference(folder)
        if not off <= CLOSE:
            raise ModelError(f"read back, its answers are {off:.1g} away; not promoted")

    return check
