"""The machine: its GPUs as NVML lists them, its torch as a process of its own finds it."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from contrib.bench.gpu.here import ROOT
from slurm_ext.node.counters.gpu.nvml import NvmlClient

WAIT_S = 10.0
TORCH_S = 120.0  # of importing torch and starting CUDA, on a slow disk


def listed() -> tuple[list[dict[str, Any]], str]:
    """NVML's GPUs in the order of the PCI bus; none, and why."""
    nvml = NvmlClient(hung_s=WAIT_S)
    nvml.ask({"list": True})
    reply = nvml.answer(WAIT_S)
    why = nvml.why or "it did not answer"
    nvml.close()
    if reply is None:
        return [], f"NVML: {why}"
    gpus = sorted(reply.get("gpus", ()), key=lambda gpu: str(gpu.get("pci") or ""))
    return gpus, "" if gpus else "NVML lists no GPU"


def chosen(gpus: Sequence[Mapping[str, Any]], env: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the GPUs to use: those that the environment allows, by UUID where it is known."""
    by_place = {str(place): str(gpu["uuid"]) for place, gpu in enumerate(gpus)}
    if "CUDA_VISIBLE_DEVICES" in env:
        words = [word.strip() for word in env["CUDA_VISIBLE_DEVICES"].split(",") if word.strip()]
    else:
        words = list(by_place)
    divided = {gpu["uuid"] for gpu in gpus if gpu.get("mig")}
    named = [by_place.get(word, word) for word in words]
    return tuple(word if uuid in divided else uuid for word, uuid in zip(words, named, strict=True))


def index_of(names: Sequence[str], gpus: Sequence[Mapping[str, Any]]) -> str:
    """Number of the first named GPU in the order of the bus; its name where that is a number."""
    uuids = [gpu["uuid"] for gpu in gpus]
    if names and names[0] in uuids:
        return str(uuids.index(names[0]))
    return names[0] if names and names[0].isdecimal() else "0"


def torch_facts() -> dict[str, Any]:
    """Version of torch, its CUDA, and `why` it has no device, by a process of its own."""
    program = [sys.executable, "-W", "ignore", "-m", "contrib.bench.gpu.programs.about"]
    try:
        done = subprocess.run(
            program, cwd=ROOT, capture_output=True, text=True, timeout=TORCH_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"why": f"torch or CUDA did not start within {TORCH_S:g} s"}
    with suppress(ValueError, IndexError):
        facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return facts
    said = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    return {"why": f"torch cannot be imported: {said[0][:200]}"}


def facts(gpus: Sequence[Mapping[str, Any]], torch: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of the machine that figures depend on."""
    return {
        "gpus": [gpu.get("name") for gpu in gpus],
        "mig": any(gpu.get("mig") for gpu in gpus),
        "driver": _driver(),
        **{name: torch.get(name) for name in ("torch", "cuda", "devices")},
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "commit": _commit(),
    }


def _driver() -> str | None:
    try:
        with open("/proc/driver/nvidia/version", encoding="ascii") as file:  # noqa: PTH123 - a line
            return file.readline().strip().partition(":")[2].strip() or None
    except OSError:
        return None


def _commit() -> str | None:
    with suppress(OSError):
        argv = ["git", "rev-parse", "--short", "HEAD"]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() or None
    return None
