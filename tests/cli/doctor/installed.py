"""A whole installation in one folder, with programs that answer as Slurm's do, to be broken."""

import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from slurm_ext.cli import config
from slurm_ext.cli.doctor.checks import examine
from slurm_ext.cli.doctor.finding import Finding
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.store.store import open_history


class Installed:
    """Everything is in order until a test changes it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("bin", "slurm", "state", "spool/out", "etc"):
            (root / name).mkdir(parents=True)
        (root / "state" / "spool").mkdir()
        self.values = {
            "paths.slurm_bin": str(root / "bin"),
            "paths.slurm_conf": str(root / "slurm" / "slurm.conf"),
            "paths.state_dir": str(root / "state"),
            "paths.socket": str(root / "socket"),
            "paths.kill_file": str(root / "etc" / "off"),
            "node.spool_dir": str(root / "spool"),
            "node.folder": str(root / "state" / "spool"),
            "node.python": str(root / "bin" / "python3"),
        }
        self.conf = {
            "Configuration data as of": "",
            "Prolog": str(root / "etc" / "hooks" / "prolog"),
            "Epilog": str(root / "etc" / "hooks" / "epilog"),
            "TaskProlog": str(root / "etc" / "hooks" / "task_prolog"),
            "PrologFlags": "Alloc",
            "MinJobAge": "300 sec",
            "SlurmUser": "root(0)",
            "JobSubmitPlugins": "lua",
            "PluginDir": str(root / "bin"),
            "PrologTimeout": "65534 sec",
            "SLURM_CONF": str(root / "slurm" / "slurm.conf"),
            "SlurmctldHost[0]": socket.gethostname(),
        }
        self.skew_s = 0.0
        self.listener: Listener | None = None
        (root / "slurm" / "slurm.conf").write_text(f"AuthInfo=socket={root}/munge\n")
        self.program("python3", "echo 3.11")
        self.program("sinfo", "true")
        for name in ("sbatch", "squeue", "munge"):
            self.program(name, "true")
        self.program("scontrol", f"cat {root}/config")
        (root / "bin" / "job_submit_lua.so").write_bytes(b"")
        with open_history(root / "state" / "history.db"):
            pass
        self.render()
        (root / "etc" / "lua" / "job_submit.lua").rename(root / "slurm" / "job_submit.lua")

    @property
    def settings(self) -> Settings:
        """As dlqueue.toml has them."""
        return Settings(str(self.root / "etc" / "dlqueue.toml"), self.values)

    def listen(self, answer: bytes | None) -> None:
        """Have this at the advisor's socket, instead of what was there."""
        self.close()
        self.listener = Listener(self.values["paths.socket"], answer)

    def close(self) -> None:
        """Nobody listens any more."""
        if self.listener is not None:
            self.listener.close()
            Path(self.values["paths.socket"]).unlink(missing_ok=True)
        self.listener = None

    def render(self) -> None:
        """What `dlqueue config --write` makes."""
        config.write(self.settings, self.root / "etc")

    def program(self, name: str, does: str) -> None:
        """A command of Slurm's, or of the system's."""
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{does}\n")
        path.chmod(0o755)

    def findings(self) -> Mapping[str, Finding]:
        """What doctor says, by what it is about."""
        lines = [f"{key} = {value}" for key, value in self.conf.items() if value]
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - self.skew_s))
        (self.root / "config").write_text("\n".join([f"Configuration data as of {stamp}", *lines]))
        return {finding.name: finding for finding in examine(self.settings)}


class Listener:
    """Something at the advisor's socket: it answers these bytes, or (None) keeps silent."""

    def __init__(self, path: str, answer: bytes | None) -> None:
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen(1)
        self.answer = answer
        self.kept: list[socket.socket] = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        try:
            while True:
                client, _ = self.server.accept()
                self.kept.append(client)
                if self.answer is not None:
                    client.sendall(self.answer)
        except OSError:
            return  # it was closed

    def close(self) -> None:
        """Nobody is there any more."""
        self.server.shutdown(socket.SHUT_RDWR)  # ends accept, which closing does not
        self.thread.join()
        for one in (self.server, *self.kept):
            one.close()
