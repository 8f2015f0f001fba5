"""Which processor took a training's steps, and what they cost of the cores."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.records import LoaderRun

GOLDEN = json.loads(
    (Path(__file__).parent.parent / "golden" / "spool" / "v1.json").read_text(encoding="utf-8")
)


def trained(summary: dict[str, Any], **phase: Any) -> LoaderRun:
    """The evidence of the golden record with other facts in its summary and its later phase."""
    one: dict[str, Any] = deepcopy(GOLDEN)
    changed = one["probe"]["summaries"][0]
    for name in ("emulated", "threads"):
        changed.pop(name, None)
    changed.update(summary)
    changed["loaders"][0]["phases"][1].update(phase)
    run = loader_run(one)
    assert run is not None
    return run


@pytest.mark.parametrize(
    ("summary", "emulated", "on_cpu"),
    [
        ({"accelerator": None, "emulated": True}, True, 0),
        ({"accelerator": None, "emulated": False}, False, 1),
        ({"accelerator": "A100", "emulated": False}, False, 0),
        ({"accelerator": None}, True, 0),
        ({"accelerator": "A100"}, False, 0),
    ],
)
def test_only_who_says_so_is_a_stand_in(
    summary: dict[str, Any], emulated: bool, on_cpu: int
) -> None:
    """Without a GPU the steps cost cores; a probe of before did not tell, and counts as before."""
    run = trained(summary)
    assert (run.emulated, run.on_cpu) == (emulated, on_cpu)


@pytest.mark.parametrize(
    ("said", "threads"), [(4, 4), (0, None), (-1, None), (True, None), ("8", None), (10**9, None)]
)
def test_threads_are_a_number_that_a_machine_has(said: object, threads: int | None) -> None:
    """A job's own process wrote it."""
    assert trained({"accelerator": None, "emulated": False, "threads": said}).threads == threads


@pytest.mark.parametrize(
    ("summary", "main_cpu_s"),
    [
        ({"emulated": False, "threads": 2}, (12.0 - 5.0) / 2048),
        ({"emulated": False, "threads": 1}, 4.0 / 2048),
        ({"emulated": False}, None),
        ({"emulated": True, "threads": 2}, None),
    ],
)
def test_a_step_beside_loading_in_one_process_has_a_bound(
    summary: dict[str, Any], main_cpu_s: float | None
) -> None:
    """CPU of the process less that of fetching, at most every thread at work in every step."""
    phase = {"workers": 0, "main_cpu_s": 12.0, "fetch_cpu_s": 5.0, "step_s": 4.0}
    run = trained({"accelerator": None, **summary}, **phase)
    assert run.main_cpu_s == (None if main_cpu_s is None else pytest.approx(main_cpu_s))


def test_with_workers_it_is_all_that_the_process_took() -> None:
    """Its workers fetch: what is left is the step and receiving batches."""
    run = trained({"accelerator": None, "emulated": False, "threads": 2}, main_cpu_s=6.0)
    assert run.main_cpu_s == pytest.approx(6.0 / 2048)
