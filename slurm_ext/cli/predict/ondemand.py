"""`dlqueue predict --ood`: the answer as attributes of an Open OnDemand form.

One line an attribute, `name: {...}`, is YAML for the `attributes` of a Batch Connect app's
form.yml.erb (Open OnDemand's manual, "Form: form.yml.erb"): widget, label, value, min, max, help,
options. Pure.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

MOST_WORKERS = 64
NO_ANSWER = "dlqueue does not know yet what this job needs."


def attributes(answer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`num_cores`, `num_workers` and, where a GPU could be shared, `gpu_share`, by name.

    `said` is the document of `dlqueue predict --json`. A value is what dlqueue would choose, or
    else what the script asks for; an attribute of which nothing is known is left out.
    """
    shape, values = answer.get("after") or answer.get("before"), {}
    if shape:
        values["num_cores"] = _number("CPUs per task", shape["cpus_per_task"], 1, _cores(answer))
    if shape and answer.get("predicted_after"):  # no script says how many workers it starts
        most = max(MOST_WORKERS, shape["num_workers"])
        values["num_workers"] = _number("Data-loader workers", shape["num_workers"], 0, most)
    for field in values.values():
        field["help"] = _help(answer)
    if answer.get("sharing"):
        values["gpu_share"] = _share(answer["sharing"])
    return values


def lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """The attributes as YAML, one a line."""
    for name, attribute in attributes(answer).items():
        yield f"{name}: {json.dumps(attribute)}"


def _number(label: str, value: int, least: int, most: int | None) -> dict[str, Any]:
    field = {"widget": "number_field", "label": label, "value": value, "min": least, "step": 1}
    return {**field, **({"max": most} if most else {})}


def _cores(answer: Mapping[str, Any]) -> int | None:
    """The form's ceiling is what the job could use; None: not known, and Slurm has its own."""
    points = [answer[name] for name in ("maximum", "knee", "before", "after") if answer.get(name)]
    return max(int(point["cpus_per_task"]) for point in points) if answer.get("maximum") else None


def _help(answer: Mapping[str, Any]) -> str:
    """One sentence under the field: how fast it would be, and on what evidence."""
    best = answer.get("predicted_after")
    if not best:
        return NO_ANSWER
    low, high = best["interval"]
    rate = f"{best['samples_per_s']:.4g} samples/s ({low:.4g} to {high:.4g})"
    emulated = ", emulated accelerator" if answer.get("emulated") else ""
    return f"dlqueue expects {rate} with these values, from {answer['runs']} runs{emulated}."


def _share(sharing: Mapping[str, Any]) -> dict[str, Any]:
    options = [["A whole GPU", "gpu:1"]]
    if sharing["share"]:
        options.append([f"A share ({sharing['gres']})", sharing["gres"]])
    return {
        "widget": "select",
        "label": "GPU",
        "value": sharing["gres"] if sharing["share"] else "gpu:1",
        "options": options,
        "help": sharing["why"],
    }
