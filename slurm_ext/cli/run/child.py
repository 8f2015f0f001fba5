"""The user's program as a child: it gets every signal, and its end becomes ours."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Task = Callable[[], None]

LEISURE_S = 1.0  # of a program: what runs longer waits for nothing that is done meanwhile
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # what a shell returns
_FORWARDED = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGWINCH,
)
_BY_A_PROCESS = (0, -1, -6)  # si_code of kill, sigqueue and tkill: a terminal's is the kernel's
_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)  # a program of the user's must not
_UNSEEN = 1 << 8  # status of an end that nobody saw: no success


class Child:
    """A started program. Raises OSError where it cannot be started."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide the program's end
        self._signals = {*_FORWARDED, signal.SIGCHLD}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        try:
            self.pid = os.posix_spawnp(
                argv[0], argv, env, setsigmask=self._mask, setsigdef=_PYTHON_IGNORES
            )
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            raise
        self._usage = None

    def wait(self, at_once: Task | None = None, at_leisure: Task | None = None) -> int:
        """Hand on what processes send to us, until it ends; its status as waitpid has it.

        A signal that was sent to both comes twice. Who else got it is not to be known: Slurm's
        step daemon may signal its own children alone, or all that came of them (proctrack).

        `at_once` is called while it starts, `at_leisure` once it has run for LEISURE_S.
        """
        _quietly(at_once)
        while True:
            try:
                pid, status, self._usage = os.wait4(self.pid, os.WNOHANG)  # type: ignore[assignment]  # a tuple whose items differ
            except ChildProcessError:
                return _UNSEEN
            if pid:
                return status
            received = self._received(at_leisure)
            if received is None:
                _quietly(at_leisure)
                at_leisure = None
            elif received.si_signo != signal.SIGCHLD and received.si_code in _BY_A_PROCESS:
                os.kill(self.pid, received.si_signo)

    def _received(self, at_leisure: Task | None) -> signal.struct_siginfo | None:
        """The next signal; None if there is something to do at leisure, and nothing came."""
        if at_leisure is None:
            return signal.sigwaitinfo(self._signals)
        return signal.sigtimedwait(self._signals, LEISURE_S)

    def cpu_s(self) -> tuple[float, float]:
        """CPU seconds of it and its children that ended before: user, system."""
        usage: os.struct_rusage | None = self._usage  # type: ignore[name-defined]  # typeshed hides it
        return (usage.ru_utime, usage.ru_stime) if usage else (0.0, 0.0)


def _quietly(task: Task | None) -> None:
    """Call it; the program comes first: what fails here fails again at its end."""
    try:
        if task:
            task()
    except Exception:  # noqa: S110 (as above)
        pass


def leave_as(status: int) -> int:
    """The exit status to return; a program that a signal ended takes us with it."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    import resource

    number = os.WTERMSIG(status)
    sys.stdout.flush()
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # its own core is the one that matters
    signal.signal(number, signal.SIG_DFL) if number not in (9, 19) else None
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number


def become(argv: list[str]) -> int:
    """Put the program in our place; returns only if it cannot start, a shell's status."""
    for number in _PYTHON_IGNORES:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 (the user's own words, no shell between)
    except OSError as error:
        for number in _PYTHON_IGNORES:
            signal.signal(number, signal.SIG_IGN)
        return not_started(argv[0], error)


def not_started(name: str, error: OSError) -> int:
    """Say why, and what to type instead; the status is a shell's."""
    from slurm_ext.cli.common.not_started import why_not_started

    print(f"dlqueue run: {name}: {why_not_started('run', name, error)}", file=sys.stderr)
    return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
