"""One question to the running advisor, over its socket."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.records import Submission
    from slurm_ext.core.settings.document import Settings

TIMEOUT_S = 5.0


def asked(settings: "Settings", kind: str, job: "Submission") -> dict[str, Any] | None:
    """The running advisor's reply; None where there is none, or it cannot say."""
    import os

    if not os.path.exists(settings["paths.socket"]):  # noqa: PTH110 (pathlib is slower)
        return None
    import json
    import socket

    from slurm_ext.core.wire import encode_request

    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(TIMEOUT_S)
            client.connect(settings["paths.socket"])
            client.sendall(encode_request(kind, job))
            said = json.loads(client.makefile("rb").readline())
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None
