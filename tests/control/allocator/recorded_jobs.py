"""A spool with recorded jobs, and an allocator over it."""

import os
from pathlib import Path
from typing import Any

from slurm_ext.control.allocator.allocator_round import Allocator
from slurm_ext.control.allocator.undo_log import allocator_state
from slurm_ext.control.lending.lender import Lender
from slurm_ext.control.lending.node_loop import make
from slurm_ext.core.settings.document import Settings
from slurm_ext.node.common import state as node_state
from slurm_ext.node.common.spool_layout import Spool, make_run_dir
from slurm_ext.slurm.in_memory import MemoryClient

UID = os.geteuid()


def recorded(spool: Spool, key: str = "7.0", **facts: Any) -> Path:
    """A job that the prolog recorded; its run folder."""
    identity = {"job_id": int(key.partition(".")[0]), "uid": UID, "node": "n1"}
    allocation = {"cpus": 2, "num_nodes": 1, "gpus": []}
    body = {"identity": identity, "allocation": allocation, "boot_id": node_state.boot_id()}
    node_state.save(spool, key, "json", body | facts, durable=False)
    make_run_dir(spool, key, UID)
    return Path(spool.run_dir(key))


def settings_of(spool: Spool, mode: str = "act", **more: Any) -> Settings:
    """Settings of the allocator."""
    more = {"allocator": "divide", **more}
    values = {f"control.{key}": value for key, value in more.items()}
    return Settings(values={"node.spool_dir": spool.root, "control.mode": mode, **values})


def allocator_of(spool: Spool, mode: str = "act", **more: Any) -> Allocator:
    """The divider of the spool's node."""
    state = allocator_state(spool)
    os.close(state.lock())
    found = make(settings_of(spool, mode, **more), MemoryClient(), state)
    assert isinstance(found, Allocator)
    return found


def lender_of(spool: Spool, mode: str = "act", **more: Any) -> Lender:
    """The lender of the spool's node."""
    state = allocator_state(spool)
    os.close(state.lock())
    found = make(settings_of(spool, mode, **{**more, "allocator": "lend"}), MemoryClient(), state)
    assert isinstance(found, Lender)
    return found
