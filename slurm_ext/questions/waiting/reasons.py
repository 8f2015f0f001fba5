"""Slurm's reasons for which a job waits, in words."""

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "None": "Slurm has not looked at it since it came or was changed",
    "Priority": "others go before it",
    "Resources": "it is the next, and waits for enough free CPUs, GPUs or memory",
    "Dependency": "it waits for other jobs to end",
    "DependencyNeverSatisfied": "what it waits for did not end as it asked: it never starts",
    "JobHeldUser": "its user holds it (scontrol release)",
    "JobHeldAdmin": "an administrator holds it",
    "BeginTime": "it is not to start before a certain time",
    "JobArrayTaskLimit": "as many tasks of its array run as it allows",
    "Reservation": "it waits for its reservation",
    "ReqNodeNotAvail": "a node that it asks for is not available",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is inactive",
    "PartitionTimeLimit": "it asks for more time than its partition allows",
    "PartitionNodeLimit": "it asks for more nodes than its partition has or allows",
    "AssociationJobLimit": "its account or user runs as many jobs as allowed",
    "QOSMaxJobsPerUserLimit": "its user runs as many jobs of its QOS as allowed",
    "QOSMaxCpuPerUserLimit": "its user uses as many CPUs of its QOS as allowed",
    "QOSMaxGRESPerUser": "its user uses as many GPUs of its QOS as allowed",
    "AssocGrpCpuLimit": "its account uses as many CPUs as allowed",
    "AssocGrpGRES": "its account uses as many GPUs as allowed",
    "Licenses": "it waits for licenses",
    "BadConstraints": "no node can ever do what it asks for",
    "NodeDown": "a node that it needs is down",
    "Prolog": "its prolog is running",
    "launch failed requeued held": "it could not be started, and is held",
}


def reason(word: str) -> str:
    """Slurm's reason in words, with its own word behind."""
    text = REASONS.get(word) or REASONS.get(word.partition(",")[0].partition("(")[0].strip())
    return f"{text} ({word})" if text else f"{word} (squeue(1) explains it)"
