"""The document of `recommend --nodes`: the cheapest and the fastest nodes for what is left to do.

`{v, job, level, samples, startup_s, deadline_s, budget, cheapest, fastest, likeliest, trial,
front, shapes, left_out, missing}`. A shape is {node, nodes, gpus, batch, samples_per_s, low, high,
time_s, time_low_s, time_high_s, cost, cost_low, cost_high, limit, rests_on, certain}; `front` has
those that no other one beats in both time and cost; `likeliest` is the shape with the best `chance`
of meeting a deadline that none is sure to meet. `trial` is the shape to measure next, with its
`chance` to be in time and cheaper than `cheapest`, and the `saving` to expect of that (a share of
its cost; null: none is sure to be in time); null: no trial is worth it. `startup_s` is the time
outside of the training loop: start-up, validation and saving grow with `samples` as in its runs.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.advisor.what_if.node_rates import Evidence, NodeRates
    from slurm_ext.advisor.what_if.run_length import TrainingWork
    from slurm_ext.core.records import Level
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.store.store import History
    from slurm_ext.history.views.gpu_runs import GpuRun
    from slurm_ext.history.views.visible import Viewer
    from slurm_ext.model.scaling.by_bytes import GradientBytes
    from slurm_ext.model.throughput.inversion import LogNormal
    from slurm_ext.policy.node_shapes import NodeType, PricedShape

SLURM = "slurm"


def document(settings: "Settings", viewer: "Viewer", fields: Mapping[str, Any]) -> dict[str, Any]:
    """The document; nothing is recommended where something is `missing`.

    `fields`: those of ranks.py, `table` (text of a table, or "slurm"), `deadline_s`, `budget`,
    `samples`, `gradient_bytes`. Raises InputError, HistoryError, SlurmError, RefusedError.
    """
    from slurm_ext.advisor.what_if.run_length import work_of

    evidence, rates = _rates(settings, viewer, fields)
    work, why = work_of(evidence)
    samples = fields.get("samples") or (work.samples if work else None)
    level = next((level.value for level, runs in evidence.items() if runs), None)
    chosen: dict[str, Any] = {"v": 1, "job": fields.get("name"), "level": level}
    chosen |= {"samples": samples, "deadline_s": fields.get("deadline_s")}
    chosen |= {"budget": fields.get("budget")}
    chosen |= {"startup_s": _startup_s(work, samples), "missing": []}
    chosen |= {"cheapest": None, "fastest": None, "likeliest": None, "trial": None}
    chosen |= {"front": [], "shapes": []}
    chosen["left_out"] = dict(rates.left_out)
    if samples is None:
        chosen["missing"].append(f"how many samples are left (--samples): {why}")
        return chosen
    return {**chosen, **_choice(chosen, rates), "missing": _missing(rates)}


def _startup_s(work: "TrainingWork | None", samples: float | None) -> float:
    """Seconds outside of the training loop, which longer trainings have more of than its runs."""
    if work is None:
        return 0.0
    return work.outside_s.high * max(1.0, (samples or 0.0) / work.samples)


def _choice(fields: Mapping[str, Any], rates: "NodeRates") -> dict[str, Any]:
    from slurm_ext.policy.node_shapes import TrainingGoal, choose_nodes
    from slurm_ext.policy.shape_trials import next_trial

    names = ("samples", "startup_s", "deadline_s", "budget")
    goal = TrainingGoal(**{name: fields[name] for name in names})
    choice = choose_nodes(rates.shapes, goal)
    trial = next_trial(choice.every, goal, choice.cheapest)
    likeliest = None
    if choice.likeliest is not None and fields["deadline_s"] is not None:
        chance = choice.likeliest.chance(fields["deadline_s"])
        likeliest = {**as_json(choice.likeliest), "chance": chance}
    return {
        "cheapest": choice.cheapest and as_json(choice.cheapest),
        "fastest": choice.fastest and as_json(choice.fastest),
        "likeliest": likeliest,
        "trial": trial and {**as_json(trial.shape), "chance": trial.chance, "saving": trial.saving},
        "front": [as_json(priced) for priced in choice.front],
        "shapes": [as_json(priced) for priced in choice.every],
    }


def as_json(priced: "PricedShape") -> dict[str, Any]:
    """One shape of the document."""
    shape = priced.shape
    return {
        "node": shape.node.name,
        "nodes": shape.nodes,
        "gpus": shape.gpus,
        "batch": shape.batch,
        "samples_per_s": shape.samples_per_s,
        "low": shape.interval.low,
        "high": shape.interval.high,
        "time_s": priced.time_s,
        "time_low_s": priced.time.low,
        "time_high_s": priced.time.high,
        "cost": priced.cost,
        "cost_low": priced.cost_bounds.low,
        "cost_high": priced.cost_bounds.high,
        "limit": shape.limit,
        "rests_on": shape.rests_on,
        "certain": priced.certain,
    }


def _missing(rates: "NodeRates") -> list[str]:
    if rates.shapes:
        return []
    return ["a rate on any node of the table: see what was left out"]


def _table(text: str, settings: "Settings") -> tuple["NodeType", ...]:
    if text != SLURM:
        from slurm_ext.questions.recommend.node_table import parse_table

        return parse_table(text, "--nodes")
    from slurm_ext.advisor.limits.rules import client_of
    from slurm_ext.questions.recommend.billing import slurm_table

    client = client_of(settings)
    flags = client.config().get("PriorityFlags", "")
    return slurm_table(client.nodes(), client.partitions(), max_tres="MAX_TRES" in flags.upper())


def _rates(
    settings: "Settings", viewer: "Viewer", fields: Mapping[str, Any]
) -> tuple["Evidence", "NodeRates"]:
    """The runs, and the rate of every shape. Raises HistoryError."""
    from contextlib import closing

    from slurm_ext.advisor.what_if.node_rates import RunFacts, node_rates
    from slurm_ext.advisor.what_if.serving_family import scaling_family
    from slurm_ext.history.store.reading import connect
    from slurm_ext.history.views.gpu_runs import gpu_runs
    from slurm_ext.history.views.lookup import similar_runs
    from slurm_ext.history.views.visible import open_visible
    from slurm_ext.questions.recommend.keys import own_keys

    path, keys = settings.state_dir / "history.db", own_keys(viewer, fields)
    wait_ms = settings["history.busy_timeout_ms"]
    with open_visible(path, viewer, busy_timeout_ms=wait_ms) as history:
        near = [run for level, key in keys.items() for run in gpu_runs(history, level, key)]
    with closing(connect(path, busy_timeout_ms=wait_ms)) as conn:
        evidence = similar_runs(conn, path, keys)
    facts = RunFacts(
        evidence=evidence,
        family=scaling_family(settings),
        busy=_busy(near),
        most_batch=fields.get("most_batch"),
        gradients=_gradients(settings, viewer, keys, fields.get("gradient_bytes")),
    )
    return evidence, node_rates(facts, _table(fields["table"], settings), _gain(settings, viewer))


def _gain(settings: "Settings", viewer: "Viewer") -> "Callable[[str, str], LogNormal | None]":
    """By what the viewer may know of others."""
    from slurm_ext.history.views.speed_rows import speed_rows

    with _known_to(settings, viewer) as history:
        return _gain_of(speed_rows(history))


def _gradients(
    settings: "Settings",
    viewer: "Viewer",
    keys: "Mapping[Level, int]",
    gradient_bytes: float | None,
) -> "GradientBytes | None":
    """By what the viewer may know of others."""
    from slurm_ext.history.views.sync_rows import sync_rows
    from slurm_ext.questions.recommend.gradients import MOST_ROWS, gradients_of

    with _known_to(settings, viewer) as history:
        return gradients_of(sync_rows(history, 0, MOST_ROWS), keys, gradient_bytes)


def _known_to(settings: "Settings", viewer: "Viewer") -> "History":
    """The viewer's own runs; where Slurm hides nobody's jobs, everybody's."""
    from slurm_ext.history.views.visible import open_visible, open_whole

    path, wait_ms = settings.state_dir / "history.db", settings["history.busy_timeout_ms"]
    if viewer.sees_all or not viewer.hides_others:
        return open_whole(path, busy_timeout_ms=wait_ms)
    return open_visible(path, viewer, busy_timeout_ms=wait_ms)


def _gain_of(rows: Any) -> "Callable[[str, str], LogNormal | None]":
    """Gain of the next training from one GPU model to a type, by what others ran on both."""
    from slurm_ext.core.gpu_request import is_model
    from slurm_ext.model.scaling.gpu_speed import GpuRate, gain

    def gained(here: str, kind: str) -> "LogNormal | None":
        named = ((row, kind if is_model(kind, row.gpu_model) else row.gpu_model) for row in rows)
        rates = (
            GpuRate(training=row.training, user=row.user, gpu=gpu, samples_per_s=row.samples_per_s)
            for row, gpu in named
            if gpu is not None
        )
        return gain(rates, here, kind)

    return gained


def _busy(runs: "list[GpuRun]") -> float | None:
    """Share of a step in which the GPU was at work, by its utilisation; None: not counted."""
    from statistics import median

    shares = [
        run.counters["gpu_util"] * rate / got
        for run in runs
        if "gpu_util" in run.counters and not run.shared
        if (rate := _number(run, "accel_samples_per_s")) and (got := _number(run, "samples_per_s"))
    ]
    return min(1.0, median(shares)) if shares else None


def _number(run: "GpuRun", name: str) -> float:
    value = run.loader[name]
    return float(value) if isinstance(value, int | float) else 0.0
