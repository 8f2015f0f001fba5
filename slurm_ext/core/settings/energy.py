"""Settings of the energy loop."""

from slurm_ext.core.settings.row import Setting, flag, loop_mode, names, number

ENERGY: tuple[Setting, ...] = (
    loop_mode(
        "energy.mode",
        "Let `dlqueue control --energy` put idle nodes to sleep, by Slurm's power saving",
    ),
    number("energy.interval_s", 60.0, 0.2, 3600.0, "Seconds between two rounds"),
    names(
        "energy.partitions", "Partitions whose nodes may sleep, each by its own demand; * is all"
    ),
    names("energy.exclude", "Nodes that never sleep"),
    number("energy.buffer", 0.03, 0.0, 1.0, "Share of nodes that stay awake beyond the need"),
    number(
        "energy.spare", 0.04, 0.0, 1.0, "Share of nodes woken beyond the need, when jobs need more"
    ),
    number(
        "energy.least", 0.04, 0.0, 1.0, "Fewest nodes to put to sleep at once, as a share of all"
    ),
    Setting(
        "energy.level",
        0.8,
        "Probability that the next hours' demand stays within its bound",
        "0.7, 0.8 or 0.9",
        lambda v: v in (0.7, 0.8, 0.9),
    ),
    number(
        "energy.settle_s",
        21600.0,
        0.0,
        604800.0,
        "Seconds after a wake in which no node is put to sleep",
    ),
    number(
        "energy.min_off_s",
        3600.0,
        0.0,
        604800.0,
        "Least seconds that a node sleeps, unless a job needs it",
    ),
    number(
        "energy.min_idle_s", 600.0, 0.0, 604800.0, "Seconds that a node is idle before it sleeps"
    ),
    number(
        "energy.history_h",
        24.0,
        0.0,
        2160.0,
        "Hours of demand to record before a node is put to sleep",
    ),
    flag(
        "energy.wake_at_end",
        False,
        "Wake sleeping nodes when the loop ends; otherwise Slurm wakes them for jobs",
    ),
)
