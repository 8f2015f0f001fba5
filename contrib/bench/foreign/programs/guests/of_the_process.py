"""Files, signals, threads and errors of one process: `python -m ...guests.of_the_process NAME`."""

import collections
import contextlib
import multiprocessing
import os
import signal
import sqlite3
import tempfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from contrib.bench.foreign.programs.data import Images, Stream
from contrib.bench.foreign.programs.feeding import Trainer
from contrib.bench.foreign.programs.guests import STEP_S, fit, start


def _file(length):
    path = tempfile.NamedTemporaryFile(delete=False).name  # noqa: SIM115 - closed by torch's data set
    np.arange(length * 768, dtype=np.float32).tofile(path)
    return path


class _Descriptor(Dataset):
    """A file descriptor: a number, which forked processes share with its place in the file."""

    def __init__(self, length):
        self.length, path = length, _file(length)
        self.descriptor = os.open(path, os.O_RDONLY)
        os.unlink(path)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        os.lseek(self.descriptor, index * 768 * 4, os.SEEK_SET)
        time.sleep(0.001)
        values = np.frombuffer(os.read(self.descriptor, 768 * 4), np.float32)
        return torch.sin(torch.from_numpy(values.copy())).reshape(3, 16, 16), index % 10


def file_descriptor():
    """`os.lseek` and `os.read` on a descriptor."""
    fit(DataLoader(_Descriptor(480), batch_size=16, shuffle=True))


class _Database(Dataset):
    def __init__(self, length, path):
        self.connection = sqlite3.connect(path)
        self.connection.execute("create table items (id integer, image blob)")
        rows = ((n, np.full(768, n, np.float32).tobytes()) for n in range(length))
        self.connection.executemany("insert into items values (?, ?)", rows)
        self.connection.commit()
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        found = self.connection.execute("select image from items where id = ?", (index,))
        image = np.frombuffer(found.fetchone()[0], np.float32).copy()
        return torch.sin(torch.from_numpy(image)).reshape(3, 16, 16), index % 10


def database():
    """A sqlite3 connection, opened in `__init__`."""
    with tempfile.NamedTemporaryFile() as file:
        fit(DataLoader(_Database(480, file.name), batch_size=16, shuffle=True))


class _Opened(Dataset):
    """A handle in the module, opened on first use."""

    archive = None

    def __init__(self, path, length):
        self.path, self.length = path, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if type(self).archive is None:
            type(self).archive = zipfile.ZipFile(self.path)
        image = np.frombuffer(type(self).archive.read(str(index)), np.float32)
        time.sleep(0.001)
        return torch.from_numpy(image.copy()).reshape(3, 16, 16), index % 10


def archive_of_the_class():
    """A zip file that the class keeps open."""
    with tempfile.NamedTemporaryFile() as file:
        with zipfile.ZipFile(file, "w") as archive:
            for number in range(480):
                image = np.sin(np.arange(768, dtype=np.float32) * (number % 17 + 1))
                archive.writestr(str(number), image.tobytes())
        fit(DataLoader(_Opened(file.name, 480), batch_size=16, shuffle=True))


class _Locked(Images):
    """Threads that make items, and a lock."""

    def __init__(self, length):
        super().__init__(length)
        self.lock, self.pool = threading.Lock(), ThreadPoolExecutor(2)

    def __getitem__(self, index):
        with self.lock:
            return self.pool.submit(super().__getitem__, index).result()


def threads_and_a_lock():
    """A pool of threads in the data set."""
    fit(DataLoader(_Locked(480), batch_size=16, shuffle=True))


_LOCK = threading.Lock()


class _UnderLock(Images):
    def __getitem__(self, index):
        with _LOCK:
            return super().__getitem__(index)


def lock_held_by_the_loop():
    """A lock of the module that another thread holds now and then while workers start."""
    over = threading.Event()

    def busy():
        while not over.wait(0.0005):
            with _LOCK:
                time.sleep(0.002)

    thread = threading.Thread(target=busy, daemon=True)
    thread.start()
    fit(DataLoader(_UnderLock(320), batch_size=16, shuffle=True))
    over.set()


def signals_to_every_process():
    """Slurm's warning reaches each process of the job: its handler saves, once."""
    folder = tempfile.mkdtemp()

    def save(*_):
        with open(os.path.join(folder, "saved"), "a") as file:
            file.write("saved\n")

    signal.signal(signal.SIGUSR1, save)
    trainer = Trainer()

    def warn(*_):
        if trainer.truth.steps % 20 == 12:
            for child in multiprocessing.active_children():
                os.kill(child.pid, signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.05)

    fit(DataLoader(Images(480), batch_size=16, shuffle=True), warn, trainer=trainer)
    with open(os.path.join(folder, "saved")) as file:
        saved = file.read()
    assert saved.count("saved") == 4, saved


class _Broken(Images):
    def __getitem__(self, index):
        if index % 97 == 50:
            raise ValueError(index)
        return super().__getitem__(index)


def errors_that_the_loop_catches():
    """Broken items raise; the loop skips their batch."""
    trainer = Trainer()
    for _ in range(3):
        with trainer.truth.training():
            batches = iter(DataLoader(_Broken(480), batch_size=16, shuffle=True))
            while True:
                try:
                    x, y = next(batches)
                except StopIteration:
                    break
                except ValueError as error:
                    trainer.truth.saw((type(error), error.args))
                    continue
                trainer.step(x, y)
                time.sleep(STEP_S)
    trainer.truth.tell()


@dataclass
class _Batch:
    images: torch.Tensor
    labels: torch.Tensor
    first: object

    def pin_memory(self):
        return self


_Named = collections.namedtuple("_Named", "x y")


def _together(items):
    images, labels = zip(*items, strict=True)
    return _Batch(torch.stack(images), torch.tensor(labels), _Named(items[0], len(items)))


def batches_of_a_class():
    """Batches are objects with a `pin_memory` of their own."""
    trainer = Trainer()
    options = {"collate_fn": _together, "pin_memory": True}
    loader = DataLoader(Images(480), batch_size=16, shuffle=True, **options)
    for _ in range(3):
        with trainer.truth.training():
            for batch in loader:
                trainer.step(batch.images, batch.labels)
                trainer.truth.saw(type(batch.first).__name__)
                time.sleep(STEP_S)
    trainer.truth.tell()


def _seed(number):
    np.random.seed(100 + number)


class _ByNumpy(Images):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image * np.float32(np.random.uniform(0.8, 1.2)), label


def workers_seeded_by_number():
    """`worker_init_fn` seeds numpy in one worker, which draws."""
    loader = DataLoader(_ByNumpy(480), batch_size=16, num_workers=1, worker_init_fn=_seed)
    fit(loader)


def spawned_and_kept():
    """`multiprocessing_context="spawn"` with persistent workers."""
    options = {"multiprocessing_context": "spawn", "persistent_workers": True, "num_workers": 2}
    fit(DataLoader(Images(960), batch_size=16, shuffle=True, **options))


def stream_left_early():
    """A sharded stream with persistent workers, left by `break`."""
    trainer = Trainer()
    loader = DataLoader(Stream(960), batch_size=16, num_workers=2, persistent_workers=True)
    for _ in range(8):
        with trainer.truth.training():
            for number, (x, y) in enumerate(loader):
                trainer.step(x, y)
                time.sleep(STEP_S)
                if number == 30:
                    break
    trainer.truth.tell()


def one_batch_each():
    """`next(iter(loader))` for each step."""
    trainer = Trainer()
    loader = DataLoader(Images(480), batch_size=16, shuffle=True)
    with trainer.truth.training():
        for _ in range(100):
            x, y = next(iter(loader))
            trainer.step(x, y)
            time.sleep(STEP_S)
    trainer.truth.tell()


def zipped_with_itself():
    """Two passes of one loader at a time, and a third loader within the loop."""
    trainer = Trainer()
    loader = DataLoader(Images(480), batch_size=16, shuffle=True)
    hold_out = DataLoader(Images(160), batch_size=16, shuffle=True)
    for _ in range(3):
        with trainer.truth.training():
            for number, ((x, y), (other, _)) in enumerate(zip(loader, loader, strict=True)):
                trainer.step(0.7 * x + 0.3 * other, y)
                time.sleep(STEP_S)
                if number % 10 == 9:
                    trainer.truth.end()
                    with torch.no_grad():
                        trainer.truth.saw([float(trainer.net(x).sum()) for x, _ in hold_out])
                    trainer.truth.begin()
    trainer.truth.tell()


class _Timed(Images):
    """Gives up on slow items, by an alarm of the process."""

    def __getitem__(self, index):
        signal.setitimer(signal.ITIMER_REAL, 5.0)
        try:
            return super().__getitem__(index)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def alarm():
    """SIGALRM in the data set."""
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError()))
    fit(DataLoader(_Timed(480), batch_size=16, shuffle=True))


class _Asked(Images):
    def __init__(self, length, values):
        super().__init__(length)
        self.values = values

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image * (1 + self.values["level"]), label


def manager_of_values():
    """The difficulty is in a manager's dict."""
    trainer = Trainer()
    with multiprocessing.Manager() as manager:
        values = manager.dict(level=0.0)

        def harder(*_):
            values["level"] = trainer.truth.steps / 100

        loader = DataLoader(_Asked(480, values), batch_size=16, shuffle=True)
        fit(loader, harder, trainer=trainer)


def child_watched():
    """The program reaps its own children by SIGCHLD, as launchers do."""
    reaped = []

    def reap(*_):
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                reaped.append(found)

    signal.signal(signal.SIGCHLD, reap)
    fit(DataLoader(Images(480), batch_size=16, shuffle=True))


if __name__ == "__main__":
    start(globals())
