"""A clock that is set while programs run: the C library's wall clock with a step from a file.

Clocks that are never set (since boot, processor time) go on, as they do where ntpd sets the clock.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static time_t step(void) {
  char text[32] = {0};
  const char *path = getenv("CLOCK_STEP");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return 0;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  return n > 0 ? atol(text) : 0;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = syscall(SYS_clock_gettime, clock, now);
  if (!failed && clock == CLOCK_REALTIME) now->tv_sec += step();
  return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
  struct timespec at;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &at)) return -1;
  now->tv_sec = at.tv_sec;
  now->tv_usec = at.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *out) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  if (out) *out = at.tv_sec;
  return at.tv_sec;
}
"""


@dataclass(frozen=True, slots=True)
class Clock:
    """The library to preload, and the file that $CLOCK_STEP names, with seconds in it."""

    library: Path
    step: Path

    def set(self, step_s: int) -> None:
        """Have every program's clock be so far from the machine's."""
        hidden = self.step.with_name(".step")
        hidden.write_text(str(step_s))
        hidden.chmod(0o644)
        hidden.replace(self.step)


@contextmanager
def clock(folder: Path) -> Iterator[Clock]:
    """A clock in this folder, at the machine's time."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    (folder / "clock.c").write_text(_SOURCE)
    made = Clock(folder / "clock.so", folder / "step")
    build = ["cc", "-shared", "-fPIC", "-O1", "-o", str(made.library), str(folder / "clock.c")]
    subprocess.run(build, check=True)
    made.set(0)
    yield made
    made.set(0)


def stepping(made: Clock, step_s: int) -> Callable[[int], None]:
    """Forward, back, back once more, and forward to the machine's time."""
    return lambda number: made.set((step_s, 0, -step_s, 0)[number % 4])


def no_compiler() -> str:
    """Say that the clock cannot be built here; nothing where it can."""
    return "" if shutil.which("cc") else "needs a C compiler"
