"""As the job's user: export lines for Slurm from the file that the prolog left for tasks."""

from __future__ import annotations

import json
import os

from slurm_ext.node.common.files import read_bounded
from slurm_ext.node.mps.rules import exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 64 * 1024


def export_lines(path: str, env: Mapping[str, str]) -> list[str]:
    """Lines for the file at `path`; none if it is damaged or its daemon is not there.

    A CUDA program whose daemon is absent runs without one, but its limits would hold.
    """
    try:
        daemon = json.loads(read_bounded(path, MAX_BYTES))
        if not os.path.exists(os.path.join(daemon["pipe"], "control")):
            return []
        return [f"export {name}={value}" for name, value in exports(daemon, env)]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []
