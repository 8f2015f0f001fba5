"""The probe's reasons become codes, and codes become clauses for people."""

import ast
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.findings.loader_refusal import (
    _CODES,
    CLAUSES,
    LoaderRefusal,
    refusal_of,
    why_workers_stay,
)
from slurm_ext.probe.streams.verdict import REASONS
from tests.house import PACKAGE

PROBE = PACKAGE / "probe"
SEEDS = "pinned seeds (DLQUEUE_SEEDED=allow lifts this)"


def loader(**values: Any) -> dict[str, Any]:
    """A loader's part of a summary: left as it was, for no reason."""
    return {"method": "own", "left_alone": None, "fallback": None, **values}


def returned(path: Path, *functions: str) -> set[str]:
    """Texts that these functions of a file return."""
    tree = ast.parse(path.read_bytes())
    defined = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in functions]
    assert len(defined) == len(functions)
    ends = [n.value for one in defined for n in ast.walk(one) if isinstance(n, ast.Return)]
    parts = [part for end in ends if end is not None for part in ast.walk(end)]
    return {p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)}


def reasons_of_a_trial() -> set[str]:
    """Texts that stand for themselves in the module of a trial fetch."""
    body = ast.parse((PROBE / "inspection" / "fetch_trial.py").read_bytes()).body
    values = [node.value for node in body if isinstance(node, ast.Assign)]
    return {v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)}


def test_every_reason_of_the_probe_has_a_code() -> None:
    """A reason that is added to the probe is added here, or people read that it has none."""
    rules = {
        node.name
        for node in ast.parse((PROBE / "rules.py").read_bytes()).body
        if isinstance(node, ast.FunctionDef) and ast.unparse(node.returns or node) == "str | None"
    }
    known = returned(PROBE / "rules.py", *rules)
    known |= returned(PROBE / "gates.py", "_refusal")
    known |= returned(PROBE / "lazy_workers.py", "_way") | reasons_of_a_trial()
    known |= set(REASONS.values()) | returned(PROBE / "streams" / "verdict.py", "_against")
    assert known
    assert known <= set(_CODES)


@pytest.mark.parametrize("code", sorted(set(LoaderRefusal) - {0, 1}))
def test_every_code_has_a_clause(code: LoaderRefusal) -> None:
    """`left as it is: its seeds are pinned, so its workers stay` is one for people."""
    assert ", so its workers stay" in why_workers_stay(code)
    assert code in CLAUSES


def test_a_code_of_a_newer_history_has_a_clause() -> None:
    """A history that a newer dlqueue wrote is told in general words."""
    assert why_workers_stay(999) == why_workers_stay(LoaderRefusal.OTHER)


def test_pinned_seeds_tell_how_they_are_lifted() -> None:
    """The user is told the one variable that lifts it."""
    assert why_workers_stay(LoaderRefusal.SEEDS) == (
        "its seeds are pinned, so its workers stay (DLQUEUE_SEEDED=allow lifts this)"
    )


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({}, LoaderRefusal.NOTHING),
        ({"method": "gated"}, LoaderRefusal.MOVED),
        ({"left_alone": SEEDS}, LoaderRefusal.SEEDS),
        ({"left_alone": "the dataset holds an open BufferedReader"}, LoaderRefusal.HOLDS),
        ({"left_alone": "the dataset holds GPU memory"}, LoaderRefusal.GPU_MEMORY),
        ({"left_alone": "\x1b[31m a user's own words"}, LoaderRefusal.OTHER),
        ({"method": "gated", "fallback": "StalledError: nothing for 30 s"}, LoaderRefusal.FAILED),
        (
            {"fallback": "fetching draws random numbers in a job with pinned seeds"},
            LoaderRefusal.SEEDS,
        ),
        (
            {"method": "gated", "left_alone": "the workers are with another loader"},
            LoaderRefusal.MOVED,
        ),
        ({"left_alone": "the workers are with another loader"}, LoaderRefusal.ELSEWHERE),
    ],
)
def test_what_the_probe_wrote_becomes_a_code(values: dict[str, Any], code: int) -> None:
    """Known words have their code, any others one for all: a user's text is never repeated."""
    assert refusal_of([loader(**values)]) == code


def test_one_rank_that_was_refused_decides() -> None:
    """Ranks run in step: one that keeps its workers holds up all."""
    assert refusal_of([loader(method="gated"), loader(left_alone=SEEDS)]) == LoaderRefusal.SEEDS
    assert refusal_of([loader(), loader(method="gated")]) == LoaderRefusal.MOVED
