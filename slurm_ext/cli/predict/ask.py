"""One question to the running advisor: over its socket, else over the network."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.records import Submission
    from slurm_ext.core.settings.document import Settings

TIMEOUT_S = 5.0


def ask(settings: "Settings", kind: str, job: "Submission") -> dict[str, Any] | None:
    """The running advisor's reply; None where there is none, or it cannot say.

    Raises AdvisorError where dlqueue.toml names an advisor on the network that does not answer.
    """
    answer = _by_socket(settings, kind, job)
    return _by_network(settings, kind, job) if answer is None else answer


def _by_socket(settings: "Settings", kind: str, job: "Submission") -> dict[str, Any] | None:
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
            answer = json.loads(client.makefile("rb").readline())
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _by_network(settings: "Settings", kind: str, job: "Submission") -> dict[str, Any] | None:
    """The reply with `past` and `policy`, where the history is not on this machine."""
    from slurm_ext.questions.answers import has_history

    if has_history(settings):
        return None
    from slurm_ext.core.errors import AdvisorError
    from slurm_ext.questions.addresses import AdvisorAddresses

    addresses = AdvisorAddresses(settings)
    try:
        if not addresses.all:
            return None
        from slurm_ext.questions.client import ask

        return ask(addresses, kind, {"submission": job})
    except AdvisorError:
        if addresses.configured:
            raise
        return None
