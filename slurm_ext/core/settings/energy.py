"""Settings of the energy loop."""

from slurm_ext.core.settings.row import Setting, flag, loop_mode, names, number

ENERGY: tuple[Setting, ...] = (
    loop_mode(
        "energy.mode",
        "Whether `dlqueue control --energy` puts idle nodes to sleep, by Slurm's power saving",
    ),
    number("energy.interval_s", 60.0, 0.2, 3600.0, "Seconds between two looks at the nodes"),
    names(
        "energy.partitions", "Partitions whose nodes may sleep, each by its own demand; * is all"
    ),
    names("energy.exclude", "Nodes that never sleep"),
    number("energy.buffer", 0.03, 0.0, 1.0, "Share of nodes kept awake beyond what is needed"),
    number(
        "energy.spare", 0.04, 0.0, 1.0, "Share woken beyond what jobs need, when they need more"
    ),
    number("energy.least", 0.04, 0.0, 1.0, "Share of nodes below which nothing is put to sleep"),
    Setting(
        "energy.level",
        0.8,
        "Odds with which the bound of the next hours' demand holds",
        "0.7, 0.8 or 0.9",
        lambda v: v in (0.7, 0.8, 0.9),
    ),
    number("energy.settle_s", 21600.0, 0.0, 604800.0, "Seconds after a wake without new sleepers"),
    number(
        "energy.min_off_s", 3600.0, 0.0, 604800.0, "Least seconds of sleep, where no job needs it"
    ),
    number(
        "energy.min_idle_s", 600.0, 0.0, 604800.0, "Seconds that a node is idle before it sleeps"
    ),
    number("energy.history_h", 24.0, 0.0, 2160.0, "Hours of demand to know before anything sleeps"),
    flag(
        "energy.wake_at_end", False, "Whether sleepers are woken at the end; Slurm wakes them else"
    ),
)
