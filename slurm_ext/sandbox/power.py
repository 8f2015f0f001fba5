"""Program behind a sandbox's SuspendProgram and ResumeProgram: a node's power is its slurmd.

python -m slurm_ext.sandbox.power stop|start ROOT HOSTLIST
"""

import sys
from pathlib import Path

from slurm_ext.sandbox.control import ask
from slurm_ext.sandbox.layout import SandboxLayout
from slurm_ext.slurm.hostlist import expand


def main(verb: str, root: str, hosts: str) -> None:
    """Stop or start the slurmd of every host. Raises SandboxError, ValueError."""
    if verb not in ("stop", "start"):
        raise ValueError(f"{verb!r}: expected stop or start")
    for name in expand(hosts):
        ask(SandboxLayout(Path(root)), verb, name=name)


if __name__ == "__main__":
    main(*sys.argv[1:4])
