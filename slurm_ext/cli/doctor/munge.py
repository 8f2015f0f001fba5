"""Checks of `doctor`: munge, without which nobody is who he says, and the port that asks for it."""

import re
import shutil
from collections.abc import Iterator

from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding, output, present
from slurm_ext.core.errors import DlqueueError, NoAdvisorError
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


def questions(settings: Settings) -> Iterator[Finding]:
    """Ask the advisor over the network, as users of this machine do where no history is."""
    from slurm_ext.questions.addresses import AdvisorAddresses
    from slurm_ext.questions.answers import has_history
    from slurm_ext.questions.client import ask, named

    addresses = AdvisorAddresses(settings)
    if not addresses.configured and has_history(settings):
        return
    try:
        if not addresses.all:
            return
        runs = ask(addresses, "ping", {})["runs"]
    except DlqueueError as error:
        state, _, advice = str(error).partition("; ")
        absent = isinstance(error, NoAdvisorError) and not addresses.configured
        yield Finding("questions", OK if absent else WARN, state, advice)
    else:
        where = ", ".join(map(named, addresses.all))
        yield Finding("questions", OK, f"answered at {where}, from {runs} runs")


def _answers(where: str) -> bool:
    option = ["-S", where] if where else []
    return shutil.which("munge") is not None and output(["munge", "-n", *option], {}) is not None
