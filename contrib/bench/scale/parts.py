"""Parts of dlqueue at one size each, in a process of their own: CPU seconds, bytes, descriptors.

    python -m contrib.bench.scale.parts PART SIZE FOLDER

FOLDER has a history.db of SIZE runs, for the parts that read one, and is theirs.
Clients and Slurm's listings are synthetic: a captured job or node, repeated. CPU time is what other
programs on the machine change least. Prints one JSON object.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from contrib.bench.common import synthetic_history
from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_request
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history
from slurm_ext.slurm.job_json import read_jobs
from slurm_ext.slurm.listing import read_nodes

CAPTURED = Path(__file__).parents[3] / "tests" / "slurm" / "data" / "24.11"
ANSWERS, TURNS, RECORDS = 400, 8, 600
Found = dict[str, float]


def listed_jobs(size: int, _: Path) -> Found:
    """`squeue --json` of so many jobs: its bytes, and what reading it takes."""
    (job, *_others) = json.loads((CAPTURED / "squeue.json").read_text())["jobs"]
    one = json.dumps(job)
    text = f'{{"jobs":[{",".join([one] * size)}]}}'
    before_b, began = _resident_b(), time.process_time()
    count = len(read_jobs(text))
    assert count == size
    cpu_s = time.process_time() - began
    return {"cpu_s": cpu_s, "text_b": len(text), "memory_b": _peak_b() - before_b}


def listed_nodes(size: int, _: Path) -> Found:
    """`scontrol show node` of so many nodes."""
    line = (CAPTURED / "nodes.txt").read_text().splitlines()[0]
    text = "\n".join([line] * size)
    began = time.process_time()
    count = len(read_nodes(text))
    assert count == size
    return {"cpu_s": time.process_time() - began, "text_b": len(text)}


def advisor(size: int, folder: Path) -> Found:
    """An advisor with so many runs: its first load, its memory, an answer, a journal's line."""
    settings = Settings(values={"site.mode": "act", "paths.state_dir": str(folder)})
    before_b, began = _resident_b(), time.process_time()
    one = Advisor(settings, Journal(folder / "journal"))
    refresher = Refresher(one, None)
    refresher.refresh()
    load_s = time.process_time() - began
    if refresher.faults() or len(one.runs) != size:
        raise SystemExit(f"{len(one.runs)} of {size} runs are loaded: {refresher.faults()}")
    memory_b = _resident_b() - before_b
    jobs = [synthetic_history.submission(number) for number in range(ANSWERS)]
    lines = [encode_request("submit", job) for job in jobs]
    one.reply(lines[0], trusted=True)  # settles what is lazy
    answer_s = min(_answered_s(one, lines[part::TURNS]) for part in range(TURNS))
    written_b = sum(path.stat().st_size for path in (folder / "journal").iterdir())
    return {
        "load_cpu_s": load_s,
        "memory_b": memory_b,
        "answer_cpu_s": answer_s,
        "history_b": (folder / "history.db").stat().st_size,
        "journal_b": written_b / (ANSWERS + 1),
        "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names alone
    }


def ingest(size: int, folder: Path) -> Found:
    """Records into a history that has so many runs: CPU and disk of one record."""
    database, spool = folder / "history.db", folder / "spool"
    del size  # it is the history's
    before_b = database.stat().st_size
    synthetic_history.write_records(spool, 10_000_000, RECORDS)
    record_b = sum(path.stat().st_size for path in spool.iterdir()) / RECORDS
    with open_history(database) as history:
        began = time.process_time()
        report = ingest_folder(history, spool, now_s=time.time())
        cpu_s = (time.process_time() - began) / RECORDS
        history.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert report.taken == RECORDS, report
    disk_b = (database.stat().st_size - before_b) / RECORDS
    return {"cpu_s": cpu_s, "disk_b": disk_b, "record_b": record_b}


def _answered_s(one: Advisor, lines: Sequence[bytes]) -> float:
    """CPU seconds of an answer; the least of several turns is what others on the machine spared."""
    began = time.process_time()
    for line in lines:
        one.reply(line, trusted=True)
    return (time.process_time() - began) / len(lines)


PARTS: dict[str, Callable[[int, Path], Found]] = {
    part.__name__: part for part in (listed_jobs, listed_nodes, advisor, ingest)
}


def _resident_b() -> int:
    return _status_b("VmRSS:")


def _peak_b() -> int:
    return _status_b("VmHWM:")


def _status_b(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def main() -> None:
    """Measure one part at one size."""
    part, size, folder = sys.argv[1:]
    print(json.dumps(PARTS[part](int(size), Path(folder))))


if __name__ == "__main__":
    main()
