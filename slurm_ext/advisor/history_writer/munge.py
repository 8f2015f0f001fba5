"""Read the signer of a text with munge's `unmunge` command, run with a time limit."""

import re
import shutil
import subprocess
from collections.abc import Sequence

from slurm_ext.core.errors import MissingError, RecordError

TIMEOUT_S = 10.0
MAX_CREDENTIAL = 16 * 1024
_SAID = re.compile(rb"UID:\s+(?:\S+ \()?([0-9]+)\)?\s*\n\n(.*)", re.DOTALL)


def signed_by(credential: str, munge_socket: str) -> tuple[int, bytes]:
    """The uid and the payload of a credential that has not been seen before.

    Raises RecordError where munge refuses it (forged, expired, replayed), MissingError where
    there is no unmunge.
    """
    command = [_unmunge(), "--keys=UID", *([f"--socket={munge_socket}"] if munge_socket else [])]
    try:
        done = _run(command, credential.encode("ascii", "replace")[:MAX_CREDENTIAL])
    except subprocess.TimeoutExpired:
        raise RecordError("munge", f"did not answer within {TIMEOUT_S:.0f} s") from None
    found = _SAID.fullmatch(done.stdout)
    if done.returncode != 0 or found is None:
        raise RecordError("munge", done.stderr.decode("utf-8", "replace").strip()[:200])
    return int(found[1]), found[2]


def _run(command: Sequence[str], said: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=said, capture_output=True, timeout=TIMEOUT_S, check=False)


def _unmunge() -> str:
    found = shutil.which("unmunge") or shutil.which("unmunge", path="/usr/bin:/usr/local/bin")
    if found is None:
        raise MissingError("unmunge is not installed", "install munge, or use the folder transport")
    return found
