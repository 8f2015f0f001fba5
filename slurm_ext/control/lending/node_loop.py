"""The node's loop as the settings say: it lends idle cores, or divides all by hard shares."""

from slurm_ext.control.allocator.allocator_round import Allocator
from slurm_ext.control.allocator.jobs import SpooledJobs
from slurm_ext.control.allocator.slurm import SlurmNodeQuery
from slurm_ext.control.allocator.undo_log import allocator_state
from slurm_ext.control.lending.lender import Lender
from slurm_ext.control.loops.control_loop import ControlLoop, LoopKind
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.core.settings.document import Settings
from slurm_ext.node.common.spool_layout import Spool
from slurm_ext.slurm.client import SlurmClient

LOOPS: dict[str, type[Lender] | type[Allocator]] = {"lend": Lender, "divide": Allocator}


def make(settings: Settings, client: SlurmClient, state: LoopState) -> ControlLoop:
    """The lender, or the divider, of this node under these settings."""
    jobs = SpooledJobs(Spool(settings["node.spool_dir"]))
    slurm = SlurmNodeQuery(client, lends_idle=settings["control.may_use_idle_cpus"])
    return LOOPS[settings["control.allocator"]](settings, jobs, state, slurm)


KIND = LoopKind(
    name="control",
    mode="control.mode",
    interval="control.interval_s",
    prefix="control.",
    state=lambda settings, writes: allocator_state(
        Spool(settings["node.spool_dir"]), writes=writes
    ),
    make=make,
    status_keys=("mode", "reason", "jobs", "left_alone"),
)
