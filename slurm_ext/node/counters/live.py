"""Counters of a running job so far, for the loops that control jobs on this node.

Read from the sampler's own file, so that nobody counts twice. The sampler writes it every one to
ten seconds (sampler.FLUSH_S), so a reading is that old at most while the job's sampler lives.
"""

from __future__ import annotations

from slurm_ext.node.common import state
from slurm_ext.node.common.spool_layout import Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SAMPLE_TIME = "sample_s"  # its own counter: seconds from the job's start to this sample
_CLOCK = "clock"


def live_counters(spool_dir: str, key: str) -> dict[str, tuple[str, float]]:
    """Counter to (source, value) of the job `key` (`<job>.<restart>`), SAMPLE_TIME among them.

    Names, units and sources as in a spool record (columns.UNITS); a GPU's are `<name>@<UUID>`.
    A counter without a source is absent, never 0. Empty if the job has no sample yet, has ended, or
    its file cannot be read.
    """
    job_state = state.load(Spool(spool_dir), key, "json") or {}
    at_s, totals = job_state.get("seen_s"), (job_state.get("meter") or {}).get("totals") or {}
    if not isinstance(at_s, (int, float)):
        return {}
    counters = {name: (str(pair[0]), float(pair[1])) for name, pair in totals.items()}
    return {**counters, SAMPLE_TIME: (_CLOCK, float(at_s))}


def rates(
    before: Mapping[str, tuple[str, float]], now: Mapping[str, tuple[str, float]]
) -> dict[str, float]:
    """Per second of wall time, what each counter that both readings hold gained between them.

    Pure. Empty if `now` is no later; without what changed its source or went backwards (a
    restarted sampler): that is no rate.
    """
    if (
        SAMPLE_TIME not in before
        or SAMPLE_TIME not in now
        or now[SAMPLE_TIME][1] <= before[SAMPLE_TIME][1]
    ):
        return {}
    lasted_s = now[SAMPLE_TIME][1] - before[SAMPLE_TIME][1]
    return {
        name: (value - before[name][1]) / lasted_s
        for name, (source, value) in now.items()
        if name != SAMPLE_TIME and name in before and before[name][0] == source
        if value >= before[name][1]
    }
