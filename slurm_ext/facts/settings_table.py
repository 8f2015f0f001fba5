"""Every setting: its key, default (whose type is the key's), what is valid, and what it means."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from slurm_ext.facts.records import Mode


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: its default (whose type is the key's), a check, and its meaning."""

    key: str
    default: Any
    doc: str
    valid: str
    ok: Callable[[Any], bool] = field(default=lambda _: True, repr=False)
    item: Callable[[Any], bool] = field(default=lambda _: True, repr=False)  # of a list


def _text(key: str, default: str, doc: str) -> Setting:
    return Setting(key, default, doc, "a string")


def _path(key: str, default: str, doc: str, *, empty: bool = False) -> Setting:
    valid = "an absolute path" + (" or empty" if empty else "")
    return Setting(key, default, doc, valid, lambda v: v.startswith("/") or (empty and not v))


def _number(key: str, default: float, low: float, high: float, doc: str) -> Setting:
    kind = "an integer" if isinstance(default, int) else "a number"
    return Setting(key, default, doc, f"{kind} from {low} to {high}", lambda v: low <= v <= high)


def _choice(key: str, default: str, choices: tuple[str, ...], doc: str) -> Setting:
    return Setting(key, default, doc, f"one of {', '.join(choices)}", lambda v: v in choices)


def _flag(key: str, default: bool, doc: str) -> Setting:
    return Setting(key, default, doc, "true or false")


def _names(key: str, doc: str) -> Setting:
    return Setting(
        key, [], doc, 'a list of names, or ["*"]', item=lambda v: isinstance(v, str) and v != ""
    )


MODES = tuple(mode.value for mode in Mode)

TABLE: tuple[Setting, ...] = (
    _choice("site.mode", "shadow", MODES, "How far dlqueue goes with every job of the site"),
    _text("site.cluster", "cluster", "The cluster's name in records"),
    _path("paths.state_dir", "/var/lib/dlqueue", "history.db, models, the advisor's spool"),
    _path("paths.socket", "/run/dlqueue/advisor.sock", "Where slurmctld asks the advisor"),
    _path("paths.kill_file", "/etc/dlqueue/off", "While this file exists, dlqueue does nothing"),
    _path("paths.slurm_bin", "", "Folder of Slurm's commands; empty: found on PATH", empty=True),
    _path("paths.slurm_conf", "", "slurm.conf to use; empty: Slurm's own choice", empty=True),
    _number("advisor.deadline_ms", 50, 1, 1000, "Longest that slurmctld waits for one answer"),
    _number("advisor.breaker_s", 30, 1, 3600, "How long a failed advisor is left alone"),
    _number("advisor.socket_mode", 0o660, 0o600, 0o666, "Permission bits of the socket"),
    _text("advisor.listen", "", "host:port for records streamed by nodes; empty: none"),
    Setting(
        "advisor.trusted_uids",
        [0],
        "Users whose requests and records count",
        "a list of uids",
        item=lambda v: type(v) is int and v >= 0,
    ),
    _number("advisor.reconcile_s", 30.0, 0.2, 3600.0, "Seconds between comparisons with squeue"),
    _number("advisor.retrain_after", 200, 1, 1_000_000, "New outcomes that start a retraining"),
    _number("policy.holdout_share", 0.05, 0.0, 0.5, "Share of eligible jobs left as written"),
    _number("policy.target", 0.98, 0.5, 1.0, "Share of the best lower bound that is enough"),
    _number("policy.min_gain", 0.05, 0.0, 1.0, "A smaller predicted gain changes nothing"),
    _number("policy.max_workers", 64, 1, 1024, "Most data-loader workers of one task"),
    _choice(
        "policy.change_explicit",
        "never",
        ("never", "grow", "any"),
        "Whether a cpus-per-task that the user wrote may be changed",
    ),
    _number("policy.min_runs", 1, 1, 100, "Fewest runs that an answer may rest on"),
    _path("node.spool_dir", "/var/spool/dlqueue", "Where a node keeps records and run folders"),
    _path("node.python", "/usr/bin/python3", "The interpreter of the node's hooks"),
    _flag("node.probe", False, "Whether the probe enters the job's Python processes"),
    _number("node.sample_s", 1.0, 0.05, 60.0, "Seconds between two samples of a job"),
    _choice(
        "node.contention_probe",
        "off",
        ("off", "passive", "active"),
        "A short memory probe beside a job, on idle processors that no job may use",
    ),
    _number("node.prolog_budget_s", 3.0, 0.5, 60.0, "Longest that the prolog may take"),
    _number("node.epilog_budget_s", 5.0, 0.5, 60.0, "Longest that the epilog may take"),
    _number("node.spool_max_mib", 256, 1, 65536, "Room for undelivered records on a node"),
    _choice("node.transport", "folder", ("folder", "stream"), "How records reach the advisor"),
    _path("node.folder", "/var/lib/dlqueue/spool", "folder: where records are put (shared)"),
    _text("node.address", "", "stream: host:port of the advisor"),
    _path("node.munge_socket", "", "munge's socket; empty: munge's own choice", empty=True),
    _choice(
        "control.mode",
        "off",
        ("off", "shadow", "act"),
        "Whether `dlqueue control` moves CPUs and workers among a node's running jobs",
    ),
    _number("control.max_workers", 16, 1, 1024, "Workers that may start ahead in one process"),
    Setting(
        "control.grain_cores",
        1.0,
        "Smallest piece of CPU that is moved; below 1 by quota, not by core",
        "0.25, 0.5 or 1.0",
        lambda v: v in (0.25, 0.5, 1.0),
    ),
    _number("control.interval_s", 2.0, 0.5, 60.0, "Seconds between two looks at the jobs"),
    _number("control.window_s", 3.0, 0.5, 600.0, "Seconds of one measurement of a running job"),
    _number("control.settle_s", 1.5, 0.0, 600.0, "Seconds after a change that are not measured"),
    _number("control.cooldown_s", 30.0, 0.0, 3600.0, "Least seconds between two changes for gain"),
    _number("control.switch_cost_s", 2.0, 0.0, 600.0, "Seconds of work that a change costs a job"),
    _number("control.margin", 0.05, 0.0, 1.0, "Predicted gain below which nothing is changed"),
    _number(
        "control.storage_mib_per_s",
        0.0,
        0.0,
        1e6,
        "What a node's storage gives its jobs; 0: plenty",
    ),
    _path(
        "control.storage_path",
        "",
        "A folder on that storage, where it is a disk of the node: its reads are shared; or empty",
        empty=True,
    ),
    _flag(
        "control.lends_unused",
        True,
        "Below a grain of 1: whether a job may use what others leave (weights), or not (quotas)",
    ),
    _flag("control.may_use_idle_cpus", False, "Whether CPUs that no job was given may be lent"),
    _choice("sharing.mode", "off", MODES, "How far dlqueue goes in having jobs share a GPU"),
    _number("sharing.floor", 0.85, 0.1, 1.0, "Least share of its solo speed that a job keeps"),
    _choice("sharing.gres", "mps", ("mps", "shard"), "What one GPU becomes, as gres.conf has it"),
    _number("sharing.most_together", 2, 2, 8, "Most jobs on one GPU"),
    _flag("sharing.across_users", False, "Whether jobs of different users may share"),
    _number(
        "sharing.gpu_mem_mib",
        0,
        0,
        1 << 24,
        "Memory of the smallest GPU; 0: not told, and no GPU is shared",
    ),
    _names("sharing.partitions", "Partitions whose jobs share without being asked"),
    _names("sharing.accounts", "Accounts whose jobs share without being asked"),
    _text("sharing.prefer", "", "Feature (in slurm.conf) of nodes that such jobs prefer; or empty"),
    _choice(
        "sharing.pairing",
        "off",
        ("off", "shadow", "act"),
        "Whether `dlqueue control --pairs` chooses which CPU jobs start beside which",
    ),
    _number("sharing.interval_s", 15.0, 0.2, 600.0, "Seconds between two looks at the queue"),
    _number("sharing.lease_s", 120, 10, 3600, "Seconds for which a waiting job is put off at once"),
    _number(
        "sharing.most_wait_s",
        3600.0,
        0.0,
        1e6,
        "Longest that a job is put off while a node has room",
    ),
    _number("sharing.patience_s", 60.0, 1.0, 3600.0, "Seconds below its floor that part a pair"),
    _choice(
        "mps.mode",
        "off",
        ("off", "act"),
        "Whether the prolog has an NVIDIA MPS daemon ready for jobs that share a GPU",
    ),
    _path("mps.control", "/usr/bin/nvidia-cuda-mps-control", "It; nvidia-smi stands beside it"),
    _choice(
        "mps.jobs",
        "mps",
        ("mps", "all"),
        "Jobs with the gres mps, or all that have one GPU or a part of it",
    ),
    _number("mps.most_percent", 100.0, 1.0, 100.0, "Most percent of a GPU's threads for a job"),
    _number(
        "mps.memory_share",
        0.95,
        0.0,
        1.0,
        "Of a job's share of the GPU's memory, what it may take; 0: no limit",
    ),
    _number("mps.drain_s", 1.0, 0.0, 30.0, "Longest wait for clients before a daemon is ended"),
    _number("history.retention_days", 730, 1, 36500, "Runs older than this are forgotten"),
    _number("history.busy_timeout_ms", 5000, 100, 60000, "Longest wait for a locked history"),
)
