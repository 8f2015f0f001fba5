"""Settings of the loops of the whole cluster, and of metrics and logs."""

import re

from slurm_ext.core.settings.row import Setting, choice, flag, job_filters, loop_mode, names, number

ENERGY: tuple[Setting, ...] = (
    loop_mode(
        "energy.mode",
        "Let `dlqueue control --energy` put idle nodes to sleep, by Slurm's power saving",
    ),
    number("energy.interval_s", 60.0, 0.2, 3600.0, "Seconds between two rounds"),
    names(
        "energy.partitions", "Partitions whose nodes may sleep, each by its own demand; * is all"
    ),
    names("energy.exclude", "Nodes that never sleep, also as n[1-4]"),
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


_LISTEN = re.compile(r"(?:(?:[\w.-]*|\[[0-9a-fA-F:]+\]):)?\d{1,5}")


LOCAL = "127.0.0.1"


def _listens(value: str) -> bool:
    return value == "" or (bool(_LISTEN.fullmatch(value)) and 0 <= address_of(value)[1] < 65536)


def address_of(value: str) -> tuple[str, int]:
    """Host and port of `metrics.listen`; without a host, 127.0.0.1."""
    host, _, port = value.rpartition(":")
    return host.strip("[]") or LOCAL, int(port)


SEEN: tuple[Setting, ...] = (
    Setting(
        "metrics.listen",
        "",
        "Address of the advisor's /metrics for Prometheus; a port: 127.0.0.1; empty: none",
        "empty, a port, or host:port",
        _listens,
    ),
    choice(
        "log.format",
        "text",
        ("text", "json"),
        "Format of the advisor's log: text, or a JSON object a line with each decision",
    ),
)
