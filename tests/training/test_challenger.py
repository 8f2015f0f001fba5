"""When a challenger is promoted, and why not, for every kind of model alike."""

from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.errors import ModelError
from slurm_ext.training.challenger import (
    CLOSE,
    Challenger,
    Export,
    Scores,
    TrainingVerdict,
    reproduces,
)


def challenger(folder: Path, scores: Scores, **changes: Any) -> Challenger[str]:
    """A kind of model whose fit is a text and whose scores are given."""
    return Challenger(
        **{
            "kind": "text",
            "folder": folder,
            "fit": lambda: "fitted",
            "score": lambda _: scores,
            "baselines": {"naive": "{ours:.2f} is not below {theirs:.2f}"},
            "export": lambda fitted, _: Export({"a.txt": fitted.encode()}, lambda _: 0.0),
            **changes,
        }
    )


def scores(error: float = 0.5, coverage: float = 0.9, incumbent: float | None = None) -> Scores:
    """Ours against a naive error of 1."""
    return {
        "ours": {"mae": error, "coverage90": coverage},
        "naive": {"mae": 1.0},
        "incumbent": None if incumbent is None else {"mae": incumbent},
    }


def test_a_challenger_that_beats_all_is_promoted(tmp_path: Path) -> None:
    """The verdict has the model's name, its scores and the figures that were there before."""
    before = TrainingVerdict(why="", runs=7, window_s=(1.0, 2.0))
    verdict = challenger(tmp_path, scores(), success="{ours} of {theirs}").challenge(before)
    assert verdict.promoted
    assert (verdict.why, verdict.runs, verdict.window_s) == ("0.5 of 1.0", 7, (1.0, 2.0))
    assert verdict.scores == scores()
    assert (tmp_path / "current").readlink() == Path(str(verdict.model))
    assert (tmp_path / "current" / "a.txt").read_bytes() == b"fitted"


@pytest.mark.parametrize(
    ("ours", "reason"),
    [
        (scores(1.0), "1.00 is not below 1.00"),
        (scores(0.9999), None),
        (scores(float("nan")), "not below"),
        (scores(0.5, 0.79), "holds 79%"),
        (scores(0.5, 0.8), None),
        (scores(0.5, 1.0), None),
        (scores(0.5, float("nan")), "holds nan"),
        (scores(0.5, incumbent=0.505), "not below the serving 0.505"),
        (scores(0.99, incumbent=1.0), None),
        ({"ours": {"mae": 0.5}, "naive": {"mae": 1.0}}, None),
    ],
)
def test_every_veto_has_its_limit(tmp_path: Path, ours: Scores, reason: str | None) -> None:
    """An equal error is no gain, nor is 1 % less than the serving one; 80 % coverage is enough."""
    veto = challenger(tmp_path, ours).veto(ours)
    assert (veto is None) == (reason is None)
    assert (reason or "") in (veto or "")


def test_a_gain_may_be_asked_for(tmp_path: Path) -> None:
    """A baseline is beaten only by `gain` times its error, in the metric of the kind."""
    ours: Scores = {"ours": {"median": 0.98}, "naive": {"median": 1.0}}
    kinds = [challenger(tmp_path, ours, metric="median", gain=gain) for gain in (0.98, 0.981)]
    assert [kind.veto(ours) is None for kind in kinds] == [False, True]


def test_a_refused_challenger_changes_nothing(tmp_path: Path) -> None:
    """Nothing is exported; the verdict says why and keeps the scores."""
    kind = challenger(tmp_path / "models", scores(2.0), export=None)
    verdict = kind.challenge(TrainingVerdict(why="", runs=1))
    assert (verdict.promoted, verdict.model, verdict.scores) == (False, None, scores(2.0))
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("off", [2 * CLOSE, float("nan")])
def test_a_model_that_does_not_read_back_is_an_error(tmp_path: Path, off: float) -> None:
    """The earlier model serves on, and no draft stays."""
    challenger(tmp_path, scores()).challenge(TrainingVerdict(why="", runs=1))
    served = (tmp_path / "current").readlink()
    other = challenger(
        tmp_path, scores(), export=lambda *_: Export({"a.txt": b"other"}, lambda _: off)
    )
    with pytest.raises(ModelError, match="not promoted"):
        other.challenge(TrainingVerdict(why="", runs=1))
    assert (tmp_path / "current").readlink() == served
    assert len(list(tmp_path.iterdir())) == 2
    reproduces(lambda _: CLOSE)(tmp_path)
