"""Every setting: its key, default (whose type is the key's), what is valid, and what it means."""

from slurm_ext.core.records import Mode
from slurm_ext.core.settings.loops_and_metrics import ENERGY, LOOPS, SEEN
from slurm_ext.core.settings.prices import MOST, is_price
from slurm_ext.core.settings.row import Setting, choice, flag, loop_mode, names, number, path, text

__all__ = ["MODES", "TABLE", "Setting"]

MODES = tuple(mode.value for mode in Mode)

# Keys of earlier versions that nothing reads any more: a site's file may still hold them.
RETIRED_KEYS = {"node.contention_probe": "the memory probe beside a job was removed"}

TABLE: tuple[Setting, ...] = (
    choice(
        "site.mode",
        "shadow",
        MODES,
        "What dlqueue does to the site's jobs",
    ),
    text("site.cluster", "cluster", "The cluster's name in records"),
    choice(
        "site.slurm_client",
        "commands",
        ("commands", "pyslurm"),
        "How loops of the whole cluster change jobs; pyslurm must be built for this very Slurm",
    ),
    path("paths.state_dir", "/var/lib/dlqueue", "history.db, models, the advisor's spool"),
    path("paths.socket", "/run/dlqueue/advisor.sock", "Socket on which slurmctld asks the advisor"),
    path("paths.kill_file", "/etc/dlqueue/off", "While this file exists, dlqueue does nothing"),
    path(
        "paths.slurm_bin",
        "",
        "Folder of Slurm's commands; empty: on PATH, or by Slurm's daemons",
        empty=True,
    ),
    path("paths.slurm_conf", "", "slurm.conf to use; empty: Slurm's own choice", empty=True),
    number(
        "advisor.deadline_ms",
        50,
        1,
        1000,
        "Milliseconds that slurmctld waits for an answer at most",
    ),
    number(
        "advisor.breaker_s",
        30,
        1,
        3600,
        "Seconds without a question for a user whose last one failed; for all if the advisor did",
    ),
    number("advisor.socket_mode", 0o660, 0o600, 0o666, "Permission bits of the socket"),
    text("advisor.listen", "", "host:port for records that nodes stream; empty: none"),
    text(
        "advisor.listen_questions",
        "",
        "host:port for questions of login and web nodes, which munge signs; empty: none",
    ),
    text(
        "advisor.address",
        "",
        "host:port (or several, by commas) that commands ask where there is no history; empty:"
        " Slurm's controllers, on the port of listen_questions or 6829",
    ),
    Setting(
        "advisor.trusted_uids",
        [0],
        "Users whose requests and records are accepted",
        "a list of uids",
        item=lambda v: type(v) is int and v >= 0,
    ),
    flag(
        "advisor.accept_job_owners",
        False,
        "Take streamed records from the jobs' users, too: what was measured, not whose it is",
    ),
    number("advisor.reconcile_s", 30.0, 0.2, 3600.0, "Seconds between comparisons with squeue"),
    number("advisor.retrain_after", 200, 1, 1_000_000, "New ended runs that start a retraining"),
    number(
        "policy.holdout_share",
        0.05,
        0.0,
        0.5,
        "Share of eligible jobs that are left as written (control group)",
    ),
    number(
        "policy.target",
        0.98,
        0.5,
        1.0,
        "Share of the best predicted lower bound that is enough",
    ),
    number("policy.min_gain", 0.05, 0.0, 1.0, "Least predicted gain for a change"),
    number("policy.max_workers", 64, 1, 1024, "Most data-loader workers of one task"),
    flag(
        "policy.autotune",
        False,
        "Let data loaders find their own number of workers while they run (mode act)",
    ),
    choice(
        "policy.change_explicit",
        "never",
        ("never", "grow", "any"),
        "Whether a cpus-per-task that the user wrote may be changed",
    ),
    number("policy.min_runs", 1, 1, 100, "Fewest runs behind a change"),
    choice(
        "policy.evidence_of",
        "user",
        ("user", "account"),
        "Whose runs may change a job: its user's, or its account's too; others' are told as advice",
    ),
    path("node.spool_dir", "/var/spool/dlqueue", "Folder of a node's records and run folders"),
    path("node.python", "/usr/bin/python3", "The interpreter of the node's hooks"),
    flag("node.probe", False, "Load the probe into the job's Python processes"),
    number("node.sample_s", 1.0, 0.05, 60.0, "Seconds between two samples of a job"),
    number("node.prolog_budget_s", 3.0, 0.5, 60.0, "Seconds that the prolog may take at most"),
    number("node.epilog_budget_s", 5.0, 0.5, 60.0, "Seconds that the epilog may take at most"),
    number(
        "node.spool_max_mib", 256, 1, 65536, "MiB of undelivered records that a node keeps at most"
    ),
    choice("node.transport", "folder", ("folder", "stream"), "How records reach the advisor"),
    path(
        "node.folder",
        "/var/lib/dlqueue/spool",
        "Shared folder of records, for the transport folder",
    ),
    text("node.address", "", "host:port of the advisor, for the transport stream"),
    path("node.munge_socket", "", "munge's socket; empty: munge's own choice", empty=True),
    loop_mode(
        "control.mode",
        "Let `dlqueue control` lend a node's idle cores among its running jobs, or divide all",
    ),
    choice(
        "control.allocator",
        "lend",
        ("lend", "divide"),
        "Lend idle cores to extra loader workers at idle priority; or divide all by hard shares",
    ),
    choice(
        "control.lends_to",
        "user",
        ("user", "account", "all"),
        "Whose jobs may use a job's idle cores: its user's, its account's too, or anybody's",
    ),
    number(
        "control.lender_floor",
        0.95,
        0.5,
        1.0,
        "Part of its own earlier rate below which a lender gets its cores back",
    ),
    number(
        "control.max_workers", 16, 1, 1024, "Workers that one process may have, lent ones included"
    ),
    Setting(
        "control.grain_cores",
        1.0,
        "To divide: smallest part of a CPU that is moved; below 1 by quota, not by core",
        "0.25, 0.5 or 1.0",
        lambda v: v in (0.25, 0.5, 1.0),
    ),
    number("control.interval_s", 2.0, 0.5, 60.0, "Seconds between two rounds"),
    number("control.window_s", 3.0, 0.5, 600.0, "Seconds of one measurement of a running job"),
    number("control.settle_s", 1.5, 0.0, 600.0, "To divide: seconds after a change, not measured"),
    number(
        "control.cooldown_s",
        30.0,
        0.0,
        3600.0,
        "Least seconds between two changes for gain, and of a disturbed lender's rest",
    ),
    number(
        "control.switch_cost_s",
        2.0,
        0.0,
        600.0,
        "To divide: seconds of work that a change costs a job",
    ),
    number(
        "control.margin", 0.05, 0.0, 1.0, "To divide: predicted gain that a change has at least"
    ),
    number(
        "control.storage_mib_per_s",
        0.0,
        0.0,
        1e6,
        "To divide: MiB/s that a node's storage gives its jobs; 0: no limit",
    ),
    path(
        "control.storage_path",
        "",
        "A folder on that storage if it is a disk of the node, whose reads are shared; or empty",
        empty=True,
    ),
    flag(
        "control.lends_unused",
        True,
        "To divide, with a grain below 1: let jobs use what others leave (weights), or not",
    ),
    flag("control.may_use_idle_cpus", False, "Lend CPUs that no job was given"),
    choice(
        "sharing.mode",
        "off",
        MODES,
        "What dlqueue does to jobs that could share a GPU",
    ),
    number("sharing.floor", 0.85, 0.1, 1.0, "Least share of its solo speed that a job keeps"),
    choice(
        "sharing.gres",
        "mps",
        ("mps", "shard"),
        "GRES that a whole GPU is replaced with, as in gres.conf",
    ),
    number("sharing.most_together", 2, 2, 8, "Most jobs on one GPU"),
    flag("sharing.across_users", False, "Let jobs of different users share a GPU"),
    number(
        "sharing.gpu_mem_mib",
        0,
        0,
        1 << 24,
        "MiB of the smallest GPU's memory; 0: not known, and no GPU is shared",
    ),
    names("sharing.partitions", "Partitions whose jobs share without opting in"),
    names("sharing.accounts", "Accounts whose jobs share without opting in"),
    text("sharing.prefer", "", "Feature (in slurm.conf) of nodes that such jobs prefer; or empty"),
    loop_mode(
        "sharing.pairing",
        "Let `dlqueue control --pairs` choose which CPU jobs start beside each other",
    ),
    number("sharing.interval_s", 15.0, 0.2, 600.0, "Seconds between two rounds"),
    number(
        "sharing.lease_s", 120, 10, 3600, "Seconds for which a waiting job is put off at a time"
    ),
    number(
        "sharing.most_wait_s",
        3600.0,
        0.0,
        1e6,
        "Seconds that a job is put off at most while a node has room, or others pass it",
    ),
    number(
        "sharing.patience_s",
        60.0,
        1.0,
        3600.0,
        "Seconds below its floor after which a pair is separated",
    ),
    choice(
        "communication.mode",
        "off",
        MODES,
        "What dlqueue does to the gradient buckets of jobs with DistributedDataParallel",
    ),
    choice(
        "mps.mode",
        "off",
        ("off", "act"),
        "Let the prolog start an NVIDIA MPS daemon for jobs that share a GPU",
    ),
    path(
        "mps.control",
        "/usr/bin/nvidia-cuda-mps-control",
        "nvidia-cuda-mps-control, with nvidia-smi in the same folder",
    ),
    choice(
        "mps.jobs",
        "mps",
        ("mps", "all"),
        "Jobs that use the daemon, with the GRES mps, or all with one GPU or a part of one",
    ),
    number("mps.most_percent", 100.0, 1.0, 100.0, "Most percent of a GPU's threads for a job"),
    number(
        "mps.memory_share",
        0.95,
        0.0,
        1.0,
        "Part of its share of the GPU's memory that a job may take; 0: no limit",
    ),
    number("mps.drain_s", 1.0, 0.0, 30.0, "Seconds to wait for clients before a daemon is ended"),
    *LOOPS,
    *ENERGY,
    *SEEN,
    number("history.retention_days", 730, 1, 36500, "Days after which runs are deleted"),
    number(
        "history.busy_timeout_ms", 5000, 100, 60000, "Milliseconds to wait for a locked history"
    ),
    choice(
        "report.users",
        "names",
        ("names", "pseudonyms", "none"),
        "How a report names users; other than names, it has no job names and ids either",
    ),
    path(
        "report.templates",
        "",
        "A folder of templates to use instead of dlqueue's; or empty",
        empty=True,
    ),
    Setting(
        "report.gpu_hour_prices",
        [],
        "Price of an hour of each GPU: the first whose type is in its name, * is any; empty: none",
        'a list such as ["A100 = 1.8", "* = 0.9"]',
        item=is_price,
    ),
    number("report.core_hour_price", 0.0, 0.0, MOST, "What an hour of a core costs; 0: nothing"),
    text("report.currency", "EUR", "Of these prices, as the report names it"),
)
