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


def show(answer: Mapping[str, Any]) -> None:
    """Print the document of `dlqueue predict --json` for a person."""
    for line in lines(answer):
        print(plain(line))
    if len(answer["curve"]) > 1:
        with suppress(MissingError):  # nobody asked for the plot: the answer is whole without
            print(plain(plot(answer["curve"], answer["after"])))


def lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """The change and its reason, the evidence, and how to opt out."""
    yield from _head(answer)
    if answer["predicted_after"]:
        from slurm_ext.report.formatting import counted

        yield f"  as written: {rate(answer['predicted_before'])}"
        if answer["action"] == "change":
            yield f"  changed:    {rate(answer['predicted_after'])}"
        emulated = "; the accelerator was emulated" if answer["emulated"] else ""
        advice = "other users' runs" if answer.get("of_others") else answer.get("why_advice")
        others = f"; {advice}: a submission is not changed" if advice else ""
        yield f"  evidence:   {counted(answer['runs'], 'run')}, {answer['level']}{emulated}{others}"
        yield from (f"              {line}" for line in past(answer.get("past") or ()))
        stay = answer.get("workers_stay")
        if stay and stay not in answer["why"]:
            yield f"  workers:    {stay}"
        yield from _reach(answer)
    if answer.get("run_time"):
        yield f"  run time:   {run_time(answer['run_time'])}"
    yield from _beside_the_loader(answer)
    if answer.get("would_change"):
        yield f"  otherwise:  {answer['would_change']}"
    if answer["action"] == "change":
        yield f"  opt out:    {answer['opt_out']}"
        if answer.get("stopped"):
            yield f"  Not changed: {answer['stopped']}."
        elif answer["mode"] != "act":
            yield f"  The mode here is {answer['mode']}: a submission would not be changed."


def _beside_the_loader(answer: Mapping[str, Any]) -> Iterator[str]:
    if answer.get("sharing"):
        yield f"  sharing:    {sharing(answer['sharing'])}"
    if (answer.get("buckets") or {}).get("ranks"):
        yield f"  buckets:    {buckets(answer['buckets'])}"


def _head(answer: Mapping[str, Any]) -> Iterator[str]:
    """The change, and Slurm's own word against the script."""
    yield _headline(answer)
    if answer.get("refused"):
        yield f"  sbatch would refuse it: {answer['refused']}"


def _reach(answer: Mapping[str, Any]) -> Iterator[str]:
    """The most that it could do, and what to do next; an older advisor does not tell."""
    if answer.get("maximum"):
        most, knee = answer["maximum"], answer["knee"]
        rates = f"{most['samples_per_s']:.4g} samples/s ({most['low']:.4g} to {most['high']:.4g})"
        yield f"  maximum:    {rates}, {_shape(most)}"
        if _shape(knee) != _shape(most):
            yield f"  knee:       {knee['samples_per_s']:.4g} samples/s, {_shape(knee)}"
        yield f"  next:       {_next(answer)}"


def _next(answer: Mapping[str, Any]) -> str:
    """The advice with its share and its option; the clause alone where nothing is gained."""
    if not answer.get("advice"):
        return f"{answer['next']} ({answer['bottleneck']})"
    from slurm_ext.cli.common.advice_text import clause

    return clause(answer["advice"])


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


def run_time(prediction: Mapping[str, Any]) -> str:
    """`2.1 h (30 min to 6.0 h), by 12 ended jobs of the same user and job name`."""
    low, high = duration(prediction["low_s"]), duration(prediction["high_s"])
    from slurm_ext.advisor.what_if.runtime_estimates import middle_s, runtime_evidence

    return f"{duration(middle_s(prediction))} ({low} to {high}), by {runtime_evidence(prediction)}"


def duration(seconds: float | None) -> str:
    """`45 s`, `12 min`, `3.2 h`, `2.1 d`."""
    if seconds is None:
        return "unknown"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.1f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:.1f} d"


def sharing(decision: Mapping[str, Any]) -> str:
    """`mps:50 instead of its GPU, at most 12 % slower (...)`, or why its GPU stays whole."""
    if not decision["share"]:
        return f"its GPU stays its own: {decision['why']}"
    from slurm_ext.advisor.sharing.terms import slower

    slow = f"at most {slower(decision['worst'])} % slower"
    mode = "" if decision["mode"] == "act" else f"; the mode here is {decision['mode']}"
    return f"{decision['gres']} instead of its GPU, {slow} ({decision['evidence']}){mode}"


def buckets(schedule: Mapping[str, Any]) -> str:
    """`DistributedDataParallel(...), 1.17x as fast by the model`, or why they stay torch's own."""
    if not schedule["change"]:
        return f"gradient buckets stay as they are: {schedule['reason']}"
    from slurm_ext.advisor.pipeline.message import bucket_option

    source = "as its runs were" if schedule["measured"] else "by a model of its communication"
    mode = "" if schedule["mode"] == "act" else f"; the mode here is {schedule['mode']}"
    return f"{bucket_option(schedule['caps'])}, {1 + schedule['gain']:.2f}x as fast {source}{mode}"


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


def _headline(answer: Mapping[str, Any]) -> str:
    script = ascii(answer["script"])[1:-1]
    if answer["action"] != "change":
        return f"{script}: left as it is: {answer['why']}"
    changes = ", ".join(
        f"{label} {answer['before'][name]} -> {answer['after'][name]}"
        for label, name in _FIELDS
        if answer["before"][name] != answer["after"][name]
    )
    return f"{script}: {changes}: {answer['why']}"
