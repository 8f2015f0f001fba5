"""The loops of `dlqueue control`: what each does, and the module with its `KIND`.

Each has a file of its name beside this one with `lines(status)`, which prints it for people.
"""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.control.loops.control_loop import LoopKind

ALLOCATOR, PAIRS = "allocator", "pairs"
PAIRS_HELP = (
    "choose, for the whole cluster, which waiting CPU jobs start beside which "
    "(sharing.pairing; on one machine)"
)
LOOPS: Mapping[str, str] = {
    "queue": "put short jobs first among those that wait, by nice (queue.mode)",
    "elastic": "divide GPUs among jobs whose owners let their size change (elastic.mode)",
    "energy": "put idle nodes to sleep and wake them, by Slurm's power saving (energy.mode)",
}
_MODULES: Mapping[str, str] = {
    ALLOCATOR: "slurm_ext.control.lending.node_loop",
    PAIRS: "slurm_ext.control.coscheduling.co_scheduling_loop",
    **{name: f"slurm_ext.control.{name}.{name}_loop" for name in LOOPS},
}


def kind_of(name: str) -> "LoopKind":
    """The loop's kind, for the runner."""
    kind: LoopKind = importlib.import_module(_MODULES[name]).KIND
    return kind
