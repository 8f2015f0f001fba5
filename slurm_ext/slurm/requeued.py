"""The wait of a requeued job before it may start again. Pure.

slurmctld has it wait for cred_expire (slurm.conf, AuthInfo) and a second, because slurmd keeps the
credential of its last start so long. A later slurmd drops that one where a newer one comes, so that
`scontrol update StartTime=now` is safe. An older one looks for what to drop once in two seconds: if
any job began or ended on the node meanwhile, the start has no prolog, or waits for one in vain and
Slurm drains the node. Read in the sources of 22.05.8 and 24.11.5, and seen on the former.
"""

import re
from collections.abc import Iterable, Mapping

from slurm_ext.slurm.records import NodeInfo

_DROPS_IT = (24, 11)  # the oldest release that was seen to
_EXPIRE_S = 120


def requeued_wait_s(config: Mapping[str, str], nodes: Iterable[NodeInfo]) -> float:
    """Return its seconds by slurmctld's `config` and the oldest slurmd; 0 if none is needed.

    A rolling upgrade begins with slurmctld: its own release counts where no node tells one.
    """
    told = {node.release for node in nodes} - {""} or {config.get("SLURM_VERSION", "")}
    if all(_release(text) >= _DROPS_IT for text in told):
        return 0.0
    expire = re.search(r"\bcred_expire=(\d+)", config.get("AuthInfo", ""))
    return 1.0 + (int(expire[1]) if expire else _EXPIRE_S)


def _release(text: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
