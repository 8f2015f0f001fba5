"""Starts a private Slurm, breaks parts of it on purpose, and stops it."""

import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from slurm_ext.core.errors import SandboxError
from slurm_ext.sandbox import control, database, network
from slurm_ext.sandbox.client import SandboxClient
from slurm_ext.sandbox.folder import make_root, open_own
from slurm_ext.sandbox.layout import SandboxLayout
from slurm_ext.sandbox.leftovers import clean, make_state, remove_folder
from slurm_ext.sandbox.manifest import SandboxManifest, read_manifest, write_manifest
from slurm_ext.sandbox.plan import BACKUP_ADVISOR, SandboxPlan, daemons, make_plan
from slurm_ext.sandbox.processes import is_same
from slurm_ext.sandbox.render import write_files
from slurm_ext.sandbox.serving import connects, knows_limits
from slurm_ext.sandbox.spec import SandboxSpec, check_machine


class Sandbox(SandboxClient):
    """A private Slurm under `root`.

    It ends with the process that called `up`, however that ends, unless `owned` is False. The
    folder of a `temporary` one is removed with it. Raises SandboxError, MissingError, SlurmError.
    """

    def __init__(
        self,
        root: Path,
        spec: SandboxSpec | None = None,
        *,
        owned: bool = True,
        temporary: bool = False,
    ) -> None:
        self.spec = spec or SandboxSpec()
        self.layout = SandboxLayout(Path(os.path.abspath(root)))  # noqa: PTH100 - links are kept
        self.owned, self.temporary = owned, temporary
        self.report: Callable[[str], None] = lambda _: None  # shows progress
        self._plan: SandboxPlan | None = None

    @classmethod
    def attach(cls, root: Path) -> "Sandbox":
        """Attach to the sandbox that another process started in `root`."""
        manifest = read_manifest(Path(os.path.abspath(root)))  # noqa: PTH100 - as above
        sandbox = cls(root, manifest.plan.spec, owned=False, temporary=manifest.temporary)
        sandbox._plan = manifest.plan
        return sandbox

    # -- life ---------------------------------------------------------------------------------

    def up(self) -> Self:
        """Start everything; return when every node is idle."""
        layout = self.layout
        layout.check(self.spec.folder_mode)
        check_machine(self.spec)
        if os.path.lexists(layout.root):
            self._clear_remains()
        make_root(layout.root, self.spec.folder_mode)
        subnet = network.free_subnet(layout.tag) if self.spec.namespaces else None
        self._plan = make_plan(self.spec, layout, subnet)
        try:
            self._build()
            self._start()
        except BaseException:
            self.down()
            raise
        return self

    def down(self, *, remove: bool = False) -> None:
        """Stop everything; keep the folder with its logs unless `remove` or temporary."""
        with suppress(SandboxError):
            manifest = read_manifest(self.layout.root)
            if manifest.supervisor is not None:
                control.end(self.layout, manifest.supervisor)
            clean(manifest.plan, temporary=manifest.temporary)
        if remove or self.temporary:
            remove_folder(self.layout.root)

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.down()

    # -- faults -------------------------------------------------------------------------------

    def stop(
        self, name: str, number: signal.Signals = signal.SIGTERM, *, grace_s: float = 30.0
    ) -> None:
        """End one daemon by a signal, and SIGKILL after `grace_s`; its children live on."""
        control.ask(self.layout, "stop", name=name, number=int(number), grace_s=grace_s)

    def start(self, name: str) -> None:
        """Start one daemon again, and wait until it serves."""
        self._launch(name)

    def restart(self, name: str) -> None:
        """Stop and start a daemon; `slurmd` means every node's."""
        names = self.nodes if name == "slurmd" else (name,)
        for daemon in names:
            self.stop(daemon)
        for daemon in names:
            self.start(daemon)

    def cut(self, node: str) -> None:
        """Pull a node's network cable (needs namespaces)."""
        network.plug(self.plan, node, connected=False)

    def mend(self, node: str) -> None:
        """Put the cable back."""
        network.plug(self.plan, node, connected=True)

    def kill_node(self, node: str) -> None:
        """Kill every process of a node, as a power cut (needs namespaces); `start` boots it."""
        network.kill(self.plan, node)
        self.until(lambda: node not in self._running(), f"{node} is still running")

    # -- start and end ------------------------------------------------------------------------

    def _clear_remains(self) -> None:
        """Remove an earlier sandbox in the folder. Raises SandboxError if it is none, or is up."""
        os.close(open_own(self.layout.root))
        if not any(self.layout.root.iterdir()):
            return
        if not os.path.lexists(self.layout.manifest):
            why = "is no sandbox and has files: choose another folder with --root, or empty it"
            raise SandboxError(f"{self.layout.root} {why}")
        supervisor = read_manifest(self.layout.root).supervisor
        if control.ask(self.layout, "status", quiet=True) is not None:
            raise SandboxError(f"a sandbox is up in {self.layout.root}: take it down first")
        if supervisor and is_same(supervisor.pid, supervisor.started, "supervisor"):
            raise SandboxError(f"the sandbox in {self.layout.root} is starting or stopping")
        self.down(remove=True)

    def _build(self) -> None:
        """Write files, start the supervisor (which undoes the rest), then build the network."""
        manifest = SandboxManifest(self.plan, self.temporary)
        write_manifest(manifest)  # first: whatever is cut short is a sandbox, and can be removed
        write_files(self.plan)
        make_state(self.plan)
        control.launch(manifest, self.env, self.owned)
        if self.spec.namespaces:
            network.build(self.plan)

    def _start(self) -> None:
        if self.spec.accounting:
            self.report("making a database")
            database.create(self.plan)
        slurmds = set(self.nodes)
        controls = [d.name for d in daemons(self.plan) if d.name.startswith("control-")]
        for daemon in daemons(self.plan):
            if daemon.name not in slurmds and daemon.name not in controls:
                self._launch(daemon.name)
                self._set_up(daemon.name)
        self.report(f"starting {len(slurmds)} slurmd")
        for name in slurmds:
            control.ask(self.layout, "start", name=name)
        self.wait_for_nodes()
        for name in controls:
            self._launch(name)
        if self.spec.advisor:
            where = self.settings["paths.socket"]
            self.until(lambda: knows_limits(where), "the advisor knows no limits", name="advisor")

    def _launch(self, name: str) -> None:
        """Start a daemon, and wait until it serves."""
        self.report(f"starting {name}")
        control.ask(self.layout, "start", name=name)
        self.until(lambda: self._serves(name), f"{name} does not serve", name=name)

    def _set_up(self, name: str) -> None:
        """Fill the database that a daemon of accounting needs, which it keeps when it ends."""
        if name == "mariadbd":
            database.grant(self.plan)
        elif name == "slurmdbd":
            database.register(self.plan, self.run)

    def _serves(self, name: str) -> bool:
        plan, run = self.plan, self.layout.run
        if name.startswith("control-"):
            node = self.layout.node(name.removeprefix("control-"))
            return (node / "dlqueue" / "control" / "status.json").exists()
        sockets = {"munged": "munge.socket", "mariadbd": "mysql.sock", "advisor": "advisor.sock"}
        ports = {"slurmctld": plan.controller_port, "slurmdbd": plan.database_port}
        if name == BACKUP_ADVISOR:
            return connects(socket.AF_UNIX, f"{self.layout.backup}/run/advisor.sock.submit")
        ports |= {host.name: host.port for host in plan.hosts}
        if name in sockets:
            return connects(socket.AF_UNIX, str(run / sockets[name]))
        addresses = {host.name: host.address for host in plan.hosts}
        return connects(socket.AF_INET, (addresses.get(name, "127.0.0.1"), ports[name]))
