"""Settings of metrics and logs, for a site's own monitoring."""

import re

from slurm_ext.core.settings.row import Setting, choice

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
