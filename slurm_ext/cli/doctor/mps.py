"""Checks of `doctor`: NVIDIA MPS on a node; none where mps.mode is off."""

import os
from collections.abc import Iterator
from pathlib import Path

from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding, judged, output, present
from slurm_ext.core.settings.document import Settings
from slurm_ext.node.common.spool_layout import Spool
from slurm_ext.node.mps.daemon import SMI_FIELDS, parse_gpu
from slurm_ext.node.mps.processes import MpsProcess, running_processes
from slurm_ext.node.mps.program import GenuineMps
from slurm_ext.node.mps.registry import FOLDER, living
from slurm_ext.node.mps.rules import LONGEST_NAME, LONGEST_SOCKET

LONGEST_PLACE = "/012345678901-4294967295/999/pipe"  # a GPU and user, see `node.mps.registry`


def mps(settings: Settings) -> Iterator[Finding]:
    """The programs, the GPUs' modes, room for sockets' names, and other tools' daemons."""
    if settings["mps.mode"] == "off":
        return
    control = Path(settings["mps.control"])
    program = control if os.access(control, os.X_OK) else None
    advice = f"{control} comes with NVIDIA's driver; set mps.control where it is elsewhere"
    yield present("mps.control", program, advice, FAIL)
    yield from _cards(control.with_name("nvidia-smi"))
    root = f"{settings['node.spool_dir']}/{FOLDER}"
    yield _room(root)
    ours = [facts["pid"] for _, facts in living(Spool(settings["node.spool_dir"]))]
    running = running_processes(GenuineMps(settings["mps.control"], None))
    yield _others(root, ours, running)


def _cards(smi: Path) -> Iterator[Finding]:
    query = [str(smi), f"--query-gpu={SMI_FIELDS}", "--format=csv,noheader,nounits"]
    text = output(query, {}) if os.access(smi, os.X_OK) else None
    if text is None:
        advice = "without it no UUID is known, and only a node's GPU 0 can have MPS"
        yield Finding("mps.gpus", WARN, f"{smi} does not answer", advice)
        return
    for index, card in enumerate(map(parse_gpu, text.splitlines())):
        state = f"{card.uuid}, compute mode {card.mode}" + (", MIG on" if card.mig else "")
        usable = not card.mig and card.mode.lower() != "prohibited"
        advice = "no MPS on it: turn MIG off, or `nvidia-smi --compute-mode=DEFAULT`"
        yield judged(f"mps.gpu {index}", usable, state, advice)


def _room(root: str) -> Finding:
    longest = len((root + LONGEST_PLACE + LONGEST_NAME).encode())
    state = f"{longest} bytes in the longest socket's name"
    advice = f"at most {LONGEST_SOCKET} are possible: shorten node.spool_dir"
    return judged("mps.sockets", longest <= LONGEST_SOCKET, state, advice, FAIL)


def _others(root: str, ours: list[int], running: list[MpsProcess]) -> Finding:
    """A daemon on all GPUs, say, that a boot script or an older prolog starts."""
    foreign = [
        process
        for process in running
        if not process.server
        and process.pid not in ours
        and not (process.pipe or "").startswith(root + "/")
    ]
    state = f"{len(ours)} of dlqueue's"
    if not foreign:
        return Finding("mps.daemons", OK, state)
    others = ", ".join(
        f"pid {process.pid} of uid {process.uid} on GPUs {process.devices or 'all'}"
        for process in foreign
    )
    advice = "jobs on these GPUs get no MPS of dlqueue's; stop what starts them, or leave it so"
    return Finding("mps.daemons", WARN, f"{state}; others: {others}", advice)
