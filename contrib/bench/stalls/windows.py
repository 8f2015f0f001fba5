"""The same trainings in windows, as `dlqueue profile` runs them, against their own clock."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from contrib.bench.stalls.configurations import Injected
from contrib.bench.stalls.runs import ran
from contrib.bench.stalls.truth import COLD, LARGE
from slurm_ext.cli.profile.analysis import document
from slurm_ext.cli.profile.run_folder import ProfileLimits, ProfileRun

LIMITS = ProfileLimits(400, 180.0, 300.0, 0)
MORE = 2  # of the steps allowed: the training does not end before the windows do
_ENDS = ("value", "low", "high")
_Clock = Mapping[str, Any]


def in_windows(injected: Injected, clocks: Sequence[_Clock]) -> dict[str, Any]:
    """Errors of the windows' stalls, whose truth is the clock of a run before this one."""
    run = ran(injected, MORE * LIMITS.steps, LIMITS)
    found = document("", ProfileRun(list(run.windows), list(run.summaries)))
    if found["depth"] != "L1":
        return {"why_not": found["why_not"], "wall_s": round(run.wall_s, 2)}
    got = {part["name"]: part for part in found["parts"]}
    step_s = found["step"]["value"]
    true = _true(injected, clocks, step_s - found["data"]["value"])
    missed = {name: abs(got[name]["value"] - true[name]) for name in true}
    large = [name for name in true if true[name] >= LARGE * step_s]
    return {
        "step_s": round(step_s, 5),
        "true": {name: round(seconds, 5) for name, seconds in true.items()},
        "windows": {name: [round(got[name][end], 5) for end in _ENDS] for name in true},
        "large_error": max([missed[name] / true[name] for name in large], default=0.0),
        "small_error": max([missed[n] / step_s for n in true if n not in large], default=0.0),
        "ended": found["ended"],
        "wall_s": round(run.wall_s, 2),
    }


def _true(injected: Injected, clocks: Sequence[_Clock], cached_s: float) -> dict[str, float]:
    """The data stall: what a batch takes beyond a step that finds its batch there.

    What ranks wait for each other, a slow one included, where no data stall hides it: under one
    there is no truth but the windows' own.
    """
    made_s = fmean([clock["worked"][1] for clock in clocks])
    stall_s = made_s / injected.workers - cached_s if injected.workers else made_s
    true = {"data": max(0.0, stall_s)}
    if injected.ranks > 1 and injected.mbit > 0 and stall_s <= 0:
        true["communicating"] = fmean([fmean(clock["exposed_s"][COLD:]) for clock in clocks])
    return true


def line(name: str, one: Mapping[str, Any]) -> str:
    """One run for people."""
    if "why_not" in one:
        return f"{name:22} no windows: {one['why_not']}"
    parts = ", ".join(
        f"{part} {1e3 * got:.1f} ({1e3 * low:.1f} to {1e3 * high:.1f}), true"
        f" {1e3 * one['true'][part]:.1f}"
        for part, (got, low, high) in one["windows"].items()
    )
    return (
        f"{name:22} in windows: step {1e3 * one['step_s']:.1f} ms, {parts};"
        f" large {one['large_error']:.1%}, small {one['small_error']:.1%}; {one['wall_s']:.0f} s"
    )
