"""Asks a sandbox's daemons whether they serve."""

import json
import socket
from contextlib import suppress

from slurm_ext.core.wire import encode_request

PATIENCE_S = 1.0


def connects(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    """True if something takes connections there."""
    with socket.socket(family) as link, suppress(OSError):
        link.settimeout(PATIENCE_S)
        link.connect(address)
        return True
    return False


def knows_limits(path: str) -> bool:
    """True if the advisor of this socket has read Slurm's limits: jobs go as written until then."""
    with socket.socket(socket.AF_UNIX) as link, suppress(OSError, ValueError):
        link.settimeout(PATIENCE_S)
        link.connect(path)
        link.sendall(encode_request("ping"))
        return bool(json.loads(link.makefile().readline()).get("limits"))
    return False
