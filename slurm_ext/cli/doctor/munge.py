"""Checks of `doctor`: munge, without which nobody is who he says, and Slurm answers nothing."""

import re
import shutil
from collections.abc import Iterator

from slurm_ext.cli.doctor.finding import FAIL, Finding, output, present
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.slurm_conf import slurm_conf

_SOCKET = re.compile(r"^\s*AuthInfo\s*=.*\bsocket=([^\s,]+)", re.IGNORECASE | re.MULTILINE)


def munge_of_the_node(settings: Settings) -> Finding:
    """It signs records that are streamed."""
    answers = _answers(settings["node.munge_socket"])
    advice = 'install munge and start munged on this node, or use node.transport = "folder"'
    return present("munge", "answers" if answers else None, advice, FAIL)


def silent_munge(settings: Settings) -> Iterator[Finding]:
    """The usual reason why Slurm's commands reach nobody; nothing on a machine of no cluster."""
    conf = slurm_conf(settings)
    try:
        text = conf.read_text(encoding="utf-8", errors="replace") if conf else None
    except OSError:
        text = None
    if text is None:
        return
    named = _SOCKET.search(text)
    if not _answers(named[1] if named else ""):
        advice = "Slurm's commands need it: systemctl start munge"
        yield Finding("munge", FAIL, "does not answer", advice)


def _answers(where: str) -> bool:
    option = ["-S", where] if where else []
    return shutil.which("munge") is not None and output(["munge", "-n", *option], {}) is not None
