"""A private, rootless, real Slurm for trial, demo, tests and benchmarks.

    with Sandbox(Path("/tmp/try"), SandboxSpec(nodes=2, cpus=4)) as sandbox:
        job_id, messages = sandbox.sbatch("--wrap", "hostname")
        sandbox.wait(job_id)

All files are under one folder. One small process, the supervisor, is the ancestor of every daemon
and of every job's processes; when its owner dies, it ends them all.
"""

from slurm_ext.sandbox.sandbox import Sandbox
from slurm_ext.sandbox.spec import SandboxSpec

__all__ = ["Sandbox", "SandboxSpec"]
