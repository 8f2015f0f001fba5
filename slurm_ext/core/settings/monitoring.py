"""Settings of what a site's own monitoring sees: metrics and logs."""

import re

from slurm_ext.core.settings.row import Setting, choice

_LISTEN = re.compile(r"(?:(?:[\w.-]*|\[[0-9a-fA-F:]+\]):)?\d{1,5}")
LOCAL = "127.0.0.1"


def _listens(value: str) -> bool:
    return value == "" or (bool(_LISTEN.fullmatch(value)) and 0 <= address_of(value)[1] < 65536)


def address_of(value: str) -> tuple[str, int]:
    """Host and port of `metrics.listen`; this machine alone where it names no host."""
    host, _, port = value.rpartition(":")
    return host.strip("[]") or LOCAL, int(port)


SEEN: tuple[Setting, ...] = (
    Setting(
        "metrics.listen",
        "",
        "Where Prometheus finds the advisor's /metrics; a port: for this machine; empty: nowhere",
        "empty, a port, or host:port",
        _listens,
    ),
    choice(
        "log.format",
        "text",
        ("text", "json"),
        "The advisor's log: lines, or a JSON object a line, one for each decision among them",
    ),
)
