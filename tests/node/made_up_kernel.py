"""A kernel whose counters read what a test says."""

from slurm_ext.node.counters.perf.job_counters import JobPerf
from slurm_ext.node.counters.perf.syscall import PerfEvent, PerfKernel
from slurm_ext.node.kernel.processes import JobProcesses


class MadeUp(PerfKernel):
    """A kernel whose readings the test writes: by event, value, enabled and running time."""

    def __init__(self, readings: dict[str, tuple[int, int, int]]) -> None:
        super().__init__()
        self.readings, self.opened, self.closed = readings, dict[int, str](), list[int]()

    def open(self, event: PerfEvent, *, pid: int = -1, cpu: int = -1) -> int:
        """Only what has a reading can be opened."""
        if event.label not in self.readings:
            raise OSError(2, "No such file or directory")
        self.opened[len(self.opened) + 100] = event.label
        return len(self.opened) + 99

    def read(self, fd: int) -> tuple[int, int, int]:
        """What the test said; a reading of no times is a descriptor gone bad."""
        reading = self.readings[self.opened[fd]]
        if reading == (-1, -1, -1):
            raise OSError(5, "gone")
        return reading

    def close(self, fd: int) -> None:
        """Remembered."""
        self.closed.append(fd)


def counted(perf: JobPerf, me: JobProcesses) -> dict[str, float]:
    """Values by counter after one more sample."""
    perf.sample(me.members, None)
    return {name: value for name, (_, value) in perf.totals().items()}
