"""`dlqueue predict` for people: the answer in a few lines, and the curve as a terminal plot."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from slurm_ext.cli.common.evidence_text import past, shape
from slurm_ext.cli.common.streams import plain
from slurm_ext.core.errors import Extra, MissingError

_FIELDS = (("cpus-per-task", "cpus_per_task"), ("workers", "num_workers"))
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
PLOT_WIDTH, PLOT_HEIGHT = 72, 16


def show(said: Mapping[str, Any]) -> None:
    """Print the document of `dlqueue predict --json` for a person."""
    for line in lines(said):
        print(plain(line))
    if len(said["curve"]) > 1:
        with suppress(MissingError):  # nobody asked for the plot: the answer is whole without
            print(plain(plot(said["curve"], said["after"])))


def lines(said: Mapping[str, Any]) -> Iterator[str]:
    """The change and its reason, the evidence, and how to opt out."""
    yield from _head(said)
    if said["predicted_after"]:
        from slurm_ext.report.formatting import counted

        yield f"  as written: {rate(said['predicted_before'])}"
        if said["action"] == "change":
            yield f"  changed:    {rate(said['predicted_after'])}"
        emulated = "; the accelerator was emulated" if said["emulated"] else ""
        advice = "other users' runs" if said.get("of_others") else said.get("why_advice")
        others = f"; {advice}: a submission is not changed" if advice else ""
        yield f"  evidence:   {counted(said['runs'], 'run')}, {said['level']}{emulated}{others}"
        yield from (f"              {line}" for line in past(said.get("past") or ()))
        stay = said.get("workers_stay")
        if stay and stay not in said["why"]:
            yield f"  workers:    {stay}"
        yield from _reach(said)
    if said.get("run_time"):
        yield f"  run time:   {run_time(said['run_time'])}"
    yield from _beside_the_loader(said)
    if said.get("would_change"):
        yield f"  otherwise:  {said['would_change']}"
    if said["action"] == "change":
        yield f"  opt out:    {said['opt_out']}"
        if said.get("stopped"):
            yield f"  Not changed: {said['stopped']}."
        elif said["mode"] != "act":
            yield f"  The mode here is {said['mode']}: a submission would not be changed."


def _beside_the_loader(said: Mapping[str, Any]) -> Iterator[str]:
    if said.get("sharing"):
        yield f"  sharing:    {sharing(said['sharing'])}"
    if (said.get("buckets") or {}).get("ranks"):
        yield f"  buckets:    {buckets(said['buckets'])}"


def _head(said: Mapping[str, Any]) -> Iterator[str]:
    """The change, and Slurm's own word against the script."""
    yield _headline(said)
    if said.get("refused"):
        yield f"  sbatch would refuse it: {said['refused']}"


def _reach(said: Mapping[str, Any]) -> Iterator[str]:
    """The most that it could do, and what to do next; an older advisor does not tell."""
    if said.get("maximum"):
        most, knee = said["maximum"], said["knee"]
        rates = f"{most['samples_per_s']:.4g} samples/s ({most['low']:.4g} to {most['high']:.4g})"
        yield f"  maximum:    {rates}, {_shape(most)}"
        if _shape(knee) != _shape(most):
            yield f"  knee:       {knee['samples_per_s']:.4g} samples/s, {_shape(knee)}"
        yield f"  next:       {_next(said)}"


def _next(said: Mapping[str, Any]) -> str:
    """The advice with its share and its option; the clause alone where nothing is gained."""
    if not said.get("advice"):
        return f"{said['next']} ({said['bottleneck']})"
    from slurm_ext.cli.common.advice_text import clause

    return clause(said["advice"])


def _shape(point: Mapping[str, Any]) -> str:
    return shape(point["cpus_per_task"], point["num_workers"])


def rate(prediction: Mapping[str, Any]) -> str:
    """`71 samples/s (60 to 80), limited by data`, and what it is in the other of two worlds."""
    value, (low, high) = prediction["samples_per_s"], prediction["interval"]
    other = prediction.get("elsewhere")
    from slurm_ext.advisor.pipeline.message import BESIDE, OWN

    here, there = (OWN, BESIDE) if other and other["crowded"] else (BESIDE, OWN)
    rates = f"{value:.4g} samples/s{f' {here}' if other else ''} ({low:.4g} to {high:.4g})"
    limited = f"{rates}, limited by {prediction['bottleneck']}"
    if not other:
        return limited
    least, most = other["interval"]
    return f"{limited}; {other['samples_per_s']:.4g} {there} ({least:.4g} to {most:.4g})"


def run_time(told: Mapping[str, Any]) -> str:
    """`2.1 h (30 min to 6.0 h), by 12 ended jobs of the same user and job name`."""
    low, high = duration(told["low_s"]), duration(told["high_s"])
    from slurm_ext.advisor.what_if.runtime_estimates import runtime_evidence

    return f"{duration(told['mean_s'])} ({low} to {high}), by {runtime_evidence(told)}"


def duration(seconds: float | None) -> str:
    """`45 s`, `12 min`, `3.2 h`, `2.1 d`."""
    if seconds is None:
        return "unknown"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.1f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:.1f} d"


def sharing(told: Mapping[str, Any]) -> str:
    """`mps:50 instead of its GPU, at most 12 % slower (...)`, or why its GPU stays whole."""
    if not told["share"]:
        return f"its GPU stays its own: {told['why']}"
    from slurm_ext.advisor.sharing.terms import slower

    slow = f"at most {slower(told['worst'])} % slower"
    mode = "" if told["mode"] == "act" else f"; the mode here is {told['mode']}"
    return f"{told['gres']} instead of its GPU, {slow} ({told['evidence']}){mode}"


def buckets(told: Mapping[str, Any]) -> str:
    """`DistributedDataParallel(...), 1.17x as fast by the model`, or why they stay torch's own."""
    if not told["change"]:
        return f"gradient buckets stay as they are: {told['reason']}"
    from slurm_ext.advisor.pipeline.message import bucket_option

    source = "as its runs were" if told["measured"] else "by a model of its communication"
    mode = "" if told["mode"] == "act" else f"; the mode here is {told['mode']}"
    return f"{bucket_option(told['caps'])}, {1 + told['gain']:.2f}x as fast {source}{mode}"


def plot(curve: list[Mapping[str, float]], after: Mapping[str, int]) -> str:
    """Samples/s over workers with the interval's bounds; a line marks the chosen count."""
    with Extra("plots"):
        from plotext import figure

    from slurm_ext.report.formatting import counted

    workers = [point["num_workers"] for point in curve]
    figure.clear()
    figure.plot_size(PLOT_WIDTH, PLOT_HEIGHT)
    for name, marker in (("low", "."), ("high", "."), ("samples_per_s", "*")):
        rates = [point[name] for point in curve]
        figure.draw(figure.signal(workers, rates, marker=marker).lines())
    figure.line(after["num_workers"], "vertical")
    figure.title(f"samples/s over workers, with {counted(after['cpus_per_task'], 'CPU')} per task")
    return str(figure.build().string(colorless=True))


def _headline(said: Mapping[str, Any]) -> str:
    script = ascii(said["script"])[1:-1]
    if said["action"] != "change":
        return f"{script}: left as it is: {said['why']}"
    changes = ", ".join(
        f"{label} {said['before'][name]} -> {said['after'][name]}"
        for label, name in _FIELDS
        if said["before"][name] != said["after"][name]
    )
    return f"{script}: {changes}: {said['why']}"
