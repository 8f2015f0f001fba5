"""Seconds that the plugin held slurmctld, timed inside it by a site's lines around ours.

With each stands how long its thread waited for a core meanwhile (proc(5), schedstat), and how long
the host of a virtual machine kept that core to itself (`steal` of /proc/stat, in steps of 10 ms: a
timer fires late then, while no thread waits). Whoever has more to run than cores holds whom it
likes, and that is not the plugin's doing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slurm_ext.sandbox import Sandbox

_TIMED = """
local campaign_clock, campaign_submit = require("socket.core").gettime, slurm_job_submit
local function campaign_read(path)
  local file = io.open(path)
  local text = file:read("*a")
  file:close()
  return text
end
local function campaign_queued_ns()
  return tonumber(campaign_read("/proc/thread-self/schedstat"):match("^%d+ (%d+)"))
end
local function campaign_core()
  return campaign_read("/proc/thread-self/stat"):match(".*%)" .. (" %S+"):rep(36) .. " (%d+)")
end
local function campaign_stolen_us(cores, core)
  return 1e4 * cores:match("cpu" .. core .. (" %d+"):rep(7) .. " (%d+)")
end
function slurm_job_submit(...)
  local cores = campaign_read("/proc/stat")
  local began, queued = campaign_clock(), campaign_queued_ns()
  local answer = campaign_submit(...)
  local held_us, queued_us =
    (campaign_clock() - began) * 1e6, (campaign_queued_ns() - queued) / 1e3
  local core = campaign_core()
  local stolen_us =
    campaign_stolen_us(campaign_read("/proc/stat"), core) - campaign_stolen_us(cores, core)
  slurm.log_info(
    "campaign: held %.0f us, %.0f us of it without a core, %.0f us of it stolen",
    held_us, queued_us, stolen_us)
  return answer
end
"""
_LINE = re.compile(
    r"^\[(\S+)\].*campaign: held (-?\d+) us, (\d+) us .*, (\d+) us of it stolen", re.MULTILINE
)
NEAR = 0.9  # of the deadline: a wait that long was for an answer that did not come


@dataclass(frozen=True, slots=True)
class Hold:
    """One call of the plugin."""

    at_s: float
    held_s: float
    queued_s: float  # of it, without a core
    stolen_s: float  # of it, while the host ran something else on its core

    @property
    def own_s(self) -> float:
        """Seconds without the machine's part of them."""
        return self.held_s - self.queued_s - self.stolen_s


def time_plugin(slurm: Sandbox) -> None:
    """Add the clock to the sandbox's job_submit.lua, and to that of a second slurmctld."""
    for name in ("etc", "backup/etc"):
        path = slurm.path(f"{name}/job_submit.lua")
        if path.exists():
            path.write_text(timed(path.read_text()))


def timed(job_submit: str) -> str:
    """A job_submit.lua with the clock around its slurm_job_submit."""
    return job_submit + _TIMED


def holds(log: str) -> list[Hold]:
    """Every call in slurmctld's log."""
    return [
        Hold(datetime.fromisoformat(when).timestamp(), *(int(us) / 1e6 for us in parts_us))
        for when, *parts_us in _LINE.findall(log)
    ]


def most_within(found: Sequence[Hold], *, least_s: float, period_s: float) -> int:
    """The most calls of at least `least_s` that fall into one period."""
    times = sorted(hold.at_s for hold in found if hold.held_s >= least_s)
    return max((sum(start <= at < start + period_s for at in times) for start in times), default=0)
