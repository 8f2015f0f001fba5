"""Metrics by partition and account: what they held, wasted and gained over the newest runs."""

import time
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from slurm_ext.history.store.store import open_history
from slurm_ext.history.views.group_figures import Groups, group_figures

FRESH_S = 300.0  # how long these are told again: they change by the hour
BUSY_MS = 500
LABELS = ("by", "name")
# Name of a family: its help and its third label.
FAMILIES = {
    "runs": ("Newest runs that the figures of a partition or account rest on", ()),
    "held_hours": ("GPU-hours and core-hours of these runs", ("resource",)),
    "wasted_hours": ("Hours of them that were idle, starved or not used", ("kind",)),
    "waste_ratio": ("Share of the measured hours that was wasted", ("kind",)),
    "gain_ratio": ("Rate of its changed jobs over its control group's", ("bound",)),
}


class GroupFamilies:
    """The families of a state folder, read again every FRESH_S."""

    def __init__(self) -> None:
        self._found: list[Metric] = []
        self._looked_s = float("-inf")

    def of(self, state: Path) -> list[Metric]:
        """As the history has them now, or had them lately. Raises HistoryError."""
        if time.monotonic() - self._looked_s >= FRESH_S:
            self._looked_s = time.monotonic()
            self._found = []
            self._found = of_groups(state)
        return self._found


def of_groups(state: Path) -> list[Metric]:
    """Five families; none without a history. Raises HistoryError."""
    path = state / "history.db"
    if not path.exists():
        return []
    with open_history(path, busy_timeout_ms=BUSY_MS, read_only=True) as history:
        return families(group_figures(history, time.time()))


def families(groups: Groups) -> list[Metric]:
    """The figures as samples."""
    made = {
        name: GaugeMetricFamily(f"dlqueue_group_{name}", about, labels=(*LABELS, *third))
        for name, (about, third) in FAMILIES.items()
    }
    for by, names in groups.items():
        for name, members in names.items():
            made["runs"].add_metric([by, name], members.runs)
            for resource, hours in members.held.items():
                made["held_hours"].add_metric([by, name, resource], hours)
            for kind, (lost, of) in members.lost.items():
                made["wasted_hours"].add_metric([by, name, kind], lost)
                made["waste_ratio"].add_metric([by, name, kind], lost / of)
            if (gain := members.gain) is not None:
                for bound, value in (("mean", gain.value), ("low", gain.low), ("high", gain.high)):
                    made["gain_ratio"].add_metric([by, name, bound], value)
    return [family for family in made.values() if family.samples]
