"""Settings of the loops that work for the whole cluster: queue, elasticity, energy."""

from slurm_ext.core.settings.row import Setting, choice, job_filters, loop_mode, number

LOOPS: tuple[Setting, ...] = (
    loop_mode("queue.mode", "Whether `dlqueue control --queue` puts short jobs first, by nice"),
    number("queue.interval_s", 30.0, 0.2, 3600.0, "Seconds between two looks at the queue"),
    choice(
        "queue.order",
        "qssf+ageing",
        ("qssf+ageing", "qssf", "fewest"),
        "Who goes first: predicted time x GPUs, with a lead that ends with waiting; or GPUs alone",
    ),
    number(
        "queue.max_nice", 1000, 1, 1_000_000_000, "Most points of priority that a job gives way"
    ),
    number(
        "queue.min_nice",
        0,
        -1_000_000_000,
        0,
        "Lowest nice; below 0 only where priorities are too low to go down",
    ),
    number("queue.most_updates", 50, 1, 1000, "Most jobs that are changed in one look"),
    *job_filters("queue", "whose jobs are put in order"),
    loop_mode(
        "elastic.mode",
        "Whether `dlqueue control --elastic` resizes jobs with DLQUEUE_ELASTIC=MIN-MAX",
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
    number("elastic.least_s", 600.0, 0.0, 86400.0, "Seconds that a job keeps a size at least"),
    *job_filters("elastic", "whose jobs may be resized"),
)
