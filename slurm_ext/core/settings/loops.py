"""Settings of the loops that work for the whole cluster: queue, elasticity, energy."""

from slurm_ext.core.settings.row import Setting, choice, job_filters, loop_mode, number

LOOPS: tuple[Setting, ...] = (
    loop_mode("queue.mode", "Let `dlqueue control --queue` put short jobs first, by nice"),
    number("queue.interval_s", 30.0, 0.2, 3600.0, "Seconds between two rounds"),
    choice(
        "queue.order",
        "qssf+ageing",
        ("qssf+ageing", "qssf", "fewest"),
        "Order by predicted time x GPUs, with or without ageing, or by GPUs alone",
    ),
    number("queue.max_nice", 1000, 1, 1_000_000_000, "Most points of priority that a job loses"),
    number(
        "queue.min_nice",
        0,
        -1_000_000_000,
        0,
        "Lowest nice; below 0 only if priorities are too low to be lowered",
    ),
    number("queue.most_updates", 50, 1, 1000, "Most jobs that one round changes"),
    *job_filters("queue", "whose jobs are ordered"),
    loop_mode(
        "elastic.mode",
        "Let `dlqueue control --elastic` resize jobs with DLQUEUE_ELASTIC=MIN-MAX",
    ),
    number("elastic.interval_s", 30.0, 0.2, 90.0, "Seconds between two divisions of the GPUs"),
    number("elastic.restart_s", 60.0, 0.0, 3600.0, "Seconds that a running job loses by a restart"),
    choice(
        "elastic.optimiser",
        "dp",
        ("dp", "evolution"),
        "How GPUs are divided: by the dynamic programme, or by a search over placements, which"
        " knows more sizes",
        retired={"ilp": "dp"},  # it solved the same problem
    ),
    number(
        "elastic.least_s", 600.0, 0.0, 86400.0, "Least seconds between two changes of a job's size"
    ),
    *job_filters("elastic", "whose jobs may be resized"),
)
