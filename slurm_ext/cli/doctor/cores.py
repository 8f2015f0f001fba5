"""Check of `doctor`: whether Slurm keeps each job on its own cores."""

from collections.abc import Mapping

from slurm_ext.cli.doctor.finding import Finding, judged
from slurm_ext.slurm.listing import constrains_cores, keeps_cores

_ADVICE = (
    "on busy nodes a job's rate follows its neighbours, who use its cores, and dlqueue takes no"
    " CPU or worker that a job would miss there: TaskPlugin=task/affinity,task/cgroup with"
    " ConstrainCores=yes in cgroup.conf keeps each job on its own"
)


def cores(config: Mapping[str, str]) -> Finding:
    """By `scontrol show config`, which also prints the controller's cgroup.conf."""
    plugins = config.get("TaskPlugin", "(null)")
    constrained = "yes" if constrains_cores(config) else "no"
    state = f"TaskPlugin={plugins}, ConstrainCores={constrained}"
    return judged("jobs' cores", keeps_cores(config), state, _ADVICE)
