"""Check of `doctor`: whether Slurm keeps each job on its own cores."""

from collections.abc import Mapping

from slurm_ext.cli.doctor.finding import Finding, judged

_ADVICE = (
    "on busy nodes a job's rate follows its neighbours, who use its cores: TaskPlugin="
    "task/affinity,task/cgroup with ConstrainCores=yes in cgroup.conf keeps each job on its own"
)


def cores(config: Mapping[str, str]) -> Finding:
    """By `scontrol show config`, which also prints the controller's cgroup.conf."""
    plugins = config.get("TaskPlugin", "(null)")
    names = {name.strip().removeprefix("task/") for name in plugins.split(",")}
    constrained = config.get("ConstrainCores", "no").lower() == "yes"
    kept = "affinity" in names or ("cgroup" in names and constrained)
    seen = f"TaskPlugin={plugins}, ConstrainCores={'yes' if constrained else 'no'}"
    return judged("jobs' cores", kept, seen, _ADVICE)
