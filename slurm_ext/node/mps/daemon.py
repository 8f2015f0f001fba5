"""One MPS control daemon: started, asked, ended; every step within its time, as the job's user.

Ended gently first: `quit` waits for clients, `shutdown_server PID -f` does not, and signals go
only to processes with our pipe folder in their environment, by pid and start time.
"""

from __future__ import annotations

import os
import time

from slurm_ext.node.mps import processes as mps_processes
from slurm_ext.node.mps.child import Owner, run, signal
from slurm_ext.node.mps.rules import DEVICES, LOG, PIPE, SmiGpu, is_uuid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_ext.node.mps.registry import MpsSlot

POLL_S = 0.005
MAX_SERVERS = 4  # a daemon of one user has one, seldom a second that is just ending
KILL_S = 0.2  # after SIGTERM, and after SIGKILL
TALK_S = 2.0  # for one command: the real daemon answers in milliseconds, a busy node starts late
SMI_FIELDS = "uuid,memory.total,mig.mode.current,compute_mode"


class MpsDaemon:
    """The `number`th daemon of a slot."""

    def __init__(self, slot: MpsSlot, number: int, owner: Owner, control: str) -> None:
        self.slot, self.number, self.owner, self.control = slot, number, owner, control

    def env(self) -> dict[str, str]:
        """For the control program: which daemon is meant."""
        pipe, log = self.slot.pipe(self.number), self.slot.log(self.number)
        return {PIPE: pipe, LOG: log, "PATH": "/usr/bin:/bin", "HOME": "/"}

    def start(self, device: str, deadline: float) -> mps_processes.MpsProcess | None:
        """Start it for one GPU; the process once it answers, None if it does not in time."""
        env = {**self.env(), DEVICES: device, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        if run([self.control, "-d"], env, self.owner, deadline, groups=True) is None:
            return None
        socket = f"{self.slot.pipe(self.number)}/control"
        while time.monotonic() < deadline:
            # The socket may be there a moment before anybody listens.
            if os.path.exists(socket) and self.ask("get_server_list", deadline) is not None:
                return self.process()
            time.sleep(POLL_S)
        return None

    def process(self) -> mps_processes.MpsProcess | None:
        """The control daemon itself, while it lives."""
        return next((process for process in self.processes() if not process.server), None)

    def processes(self) -> list[mps_processes.MpsProcess]:
        """It and its servers: the user's processes with its pipe folder in their environment."""
        running = mps_processes.running_processes(lambda _, uid: uid == self.owner.uid)
        return mps_processes.daemon_and_servers(
            self.slot.pipe(self.number), self.owner.uid, running
        )

    def ask(self, command: str, deadline: float) -> str | None:
        """The daemon's answer to one command; None if it gives none in time."""
        until = min(deadline, time.monotonic() + TALK_S)
        return run([self.control], self.env(), self.owner, until, stdin=f"{command}\n")

    def in_fault(self, deadline: float) -> bool:
        """True if a server takes no new clients because it waits for those of a fault to end."""
        servers = (self.ask("get_server_list", deadline) or "").split()
        states = [self.ask(f"get_server_status {pid}", deadline) for pid in servers[:MAX_SERVERS]]
        return any("FAULT" in (state or "").upper() for state in states)

    def end(self, drain_s: float, deadline: float) -> bool:
        """End the daemon: ask, then force, then kill. True if nothing of it is left."""
        if not self.processes():
            return True
        now = time.monotonic()
        half = now + 0.5 * max(0.0, deadline - now)
        patient = min(half, now + drain_s)
        self.ask("quit", patient)
        if self._gone_by(patient):
            return True
        if self._forced(half) and self._gone_by(half):
            return True
        return self._killed(deadline)

    def _forced(self, deadline: float) -> bool:
        """Tell it to end its servers with their clients; False if it does not answer."""
        servers = self.ask("get_server_list", deadline)
        if servers is None:
            return False
        for pid in servers.split()[:MAX_SERVERS]:
            if pid.isdecimal():
                self.ask(f"shutdown_server {pid} -f", deadline)
        return self.ask("quit", deadline) is not None

    def _killed(self, deadline: float) -> bool:
        for number in (15, 9):
            for process in self.processes():
                signal(self.owner, process.pid, process.start, number, deadline)
            if self._gone_by(min(deadline, time.monotonic() + KILL_S)):
                return True
        return False

    def _gone_by(self, deadline: float) -> bool:
        for process in self.processes():
            while mps_processes.is_alive(process.pid, process.start):
                if time.monotonic() >= deadline:
                    return False
                time.sleep(POLL_S)
        return not self.processes()  # nor one that was born meanwhile


def query_gpu(control: str, gpu: str, owner: Owner, deadline: float) -> SmiGpu:
    """Ask nvidia-smi, which lies beside the control program, for a GPU by index or UUID."""
    smi = os.path.join(os.path.dirname(control), "nvidia-smi")
    if not os.access(smi, os.X_OK):
        return SmiGpu()
    query = [smi, f"--id={gpu}", f"--query-gpu={SMI_FIELDS}", "--format=csv,noheader,nounits"]
    output = run(query, {"PATH": "/usr/bin:/bin"}, owner, deadline)
    return parse_gpu(output or "")


def parse_gpu(output: str) -> SmiGpu:
    """One line of nvidia-smi's CSV as a SmiGpu; unknown fields are left out."""
    fields = [field.strip() for field in output.strip().split(",")]
    if len(fields) != 4 or not is_uuid(fields[0]):
        return SmiGpu()
    uuid, mib, mig, mode = fields
    return SmiGpu(uuid, int(mib) if mib.isdecimal() else None, mig.lower() == "enabled", mode)
