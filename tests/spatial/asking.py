"""Ranks that answer one question after another: hundreds of random cases in one process group.

python -m tests.spatial.asking RANKS MODULE FOLDER forks the ranks, joined by gloo. Each calls
`prepare()` of MODULE, and then `answer(question)` for each line of JSON on standard input; a line
of all ranks' answers comes back.
"""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.spatial.world import ROOT, imported

HANGS = {"hangs": True}
PATIENCE_S = 60.0


class Ranks:
    """Ranks that are asked together; new ones come where some hang or have died."""

    def __init__(self, module: str, ranks: int, folder: Path) -> None:
        self.module, self.ranks, self.folder = module, ranks, folder
        self.process: subprocess.Popen[str] | None = None

    def ask(self, question: Any) -> list[Any]:
        """The answer of each rank."""
        process = self.process or self._started()
        assert process.stdin
        assert process.stdout
        print(json.dumps(question), file=process.stdin, flush=True)
        line = process.stdout.readline()
        answers: list[Any] = json.loads(line or "[]")
        if not answers or HANGS in answers:
            self.end()
        return answers

    def end(self) -> None:
        """Stop the ranks: they are killed when there is nobody to ask."""
        if self.process is not None:
            self.process.communicate()
            self.process = None

    def _started(self) -> "subprocess.Popen[str]":
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        (self.folder / "meet").unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.spatial.asking", str(self.ranks), self.module]
        self.process = subprocess.Popen(
            [*command, str(self.folder)],
            env=env,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self.process


def main() -> None:
    """Fork the ranks, and hand questions and answers on."""
    count, module, folder = int(sys.argv[1]), imported(sys.argv[2]), sys.argv[3]
    fork = multiprocessing.get_context("fork")
    pipes = [fork.Pipe() for _ in range(count)]
    about = [(rank, count, folder, module, there) for rank, (_, there) in enumerate(pipes)]
    ranks = [fork.Process(target=_rank, args=one) for one in about]
    for rank in ranks:
        rank.start()
    for line in sys.stdin:
        for here, _ in pipes:
            here.send(json.loads(line))
        answers = [here.recv() if here.poll(PATIENCE_S) else HANGS for here, _ in pipes]
        sys.stdout.write(json.dumps(answers) + "\n")
        sys.stdout.flush()
    for rank in ranks:
        rank.kill()


def _rank(rank: int, count: int, folder: str, module: Any, questions: Any) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    meet = f"file://{folder}/meet"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=count)
    module.prepare()
    answer: Callable[[Any], Any] = module.answer
    while True:
        questions.send(answer(questions.recv()))


if __name__ == "__main__":
    main()
