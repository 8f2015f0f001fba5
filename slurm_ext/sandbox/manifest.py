"""Manifest of a sandbox, sandbox.json: what was built and by which process, as data.

It holds a spec, numbers and a process's identity. Commands, and paths to remove, follow from these
in `plan.py`, and are never read from a file.
"""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_ext.core.errors import SandboxError, unreadable
from slurm_ext.core.files import replace_file
from slurm_ext.core.ownership import read_own
from slurm_ext.sandbox.folder import open_own
from slurm_ext.sandbox.layout import SandboxLayout
from slurm_ext.sandbox.plan import SandboxPlan, read_plan
from slurm_ext.sandbox.spec import SandboxSpec

VERSION = 2
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, SandboxError)


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process that no later one can be taken for; `started` in clock ticks since boot."""

    pid: int
    started: int

    def __post_init__(self) -> None:
        if type(self.pid) is not int or type(self.started) is not int or self.pid < 2:
            raise ValueError(f"no process: {self}")


@dataclass(frozen=True, slots=True)
class SandboxManifest:
    """Plan of a sandbox that was built, and its supervisor (None before it is started)."""

    plan: SandboxPlan
    temporary: bool
    supervisor: ProcessId | None = None

    def with_supervisor(self, pid: int, started: int) -> "SandboxManifest":
        """Return the manifest of a sandbox whose supervisor runs."""
        return replace(self, supervisor=ProcessId(pid, started))


def write_manifest(manifest: SandboxManifest) -> None:
    """Write it for this user alone. Raises OSError."""
    process = manifest.supervisor
    body = {
        "v": VERSION,
        "spec": manifest.plan.spec.as_json(),
        "plan": manifest.plan.as_json(),
        "temporary": manifest.temporary,
        "supervisor": process and {"pid": process.pid, "started": process.started},
    }
    text = json.dumps(body, indent=1)
    replace_file(manifest.plan.layout.manifest, text.encode(), mode=0o600, durable=False)


def read_manifest(root: Path) -> SandboxManifest:
    """Read the manifest of the sandbox in `root`. Raises SandboxError if there is none."""
    layout = SandboxLayout(root)
    folder = open_own(root)
    try:
        body = json.loads(read_own(Path(layout.manifest.name), folder=folder))
    except FileNotFoundError:
        raise SandboxError(f"{root} is no sandbox: `dlqueue sandbox up` makes one") from None
    except PermissionError as error:
        raise SandboxError(f"{layout.manifest}: {error.strerror}") from None
    except (OSError, ValueError) as error:
        raise SandboxError(str(unreadable(str(layout.manifest), error))) from None
    finally:
        os.close(folder)
    try:
        return _manifest(layout, body)
    except _DAMAGE as error:
        why = "was not written by this release's `dlqueue sandbox up`: remove its folder"
        raise SandboxError(f"{layout.manifest} {why} ({error!r})") from None


def _manifest(layout: SandboxLayout, body: dict[str, Any]) -> SandboxManifest:
    if body["v"] != VERSION:
        raise ValueError(f"version {body['v']!r}")
    plan = read_plan(SandboxSpec(**body["spec"]), layout, body["plan"])
    process = body["supervisor"]
    return SandboxManifest(
        plan, bool(body["temporary"]), None if process is None else ProcessId(**process)
    )
