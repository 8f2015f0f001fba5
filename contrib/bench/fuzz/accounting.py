"""sacct → import → report: files of accounting with hostile lines, each with an honest one.

An honest job stands at the end of each file: if it does not come in, the import is stuck. After
each file every format of the report is written.
"""

import contextlib
import gzip
import io
import json
import tempfile
from argparse import Namespace
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from random import Random

from contrib.bench.fuzz.mutate import TOKENS, mutated, mutated_text
from contrib.bench.fuzz.pair import STUCK, Pair, Tried
from slurm_ext.cli.history import import_runs
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.imports.sacct import COLUMNS
from slurm_ext.history.store.store import open_history
from slurm_ext.report.formats import written
from slurm_ext.report.sections.build import report_of

LINES = 200  # of one file
FILES = 20  # into one history: reports read all of it
FORMS = ("md", "csv", "json", "html")
_FIGURES = {"total_time": 9000, "cpus": 4, "used_memory": 1 << 30, "gpu_utilization": {"0": 55}}
_JOBSTATS = {"nodes": {"n1": _FIGURES}}


def _comment(document: object) -> str:
    """A summary as jobstats writes it."""
    return "JS1:" + b64encode(gzip.compress(json.dumps(document).encode())).decode()


_HONEST = {
    "JobIDRaw": "7",
    "State": "COMPLETED",
    "Submit": "2026-10-01T09:00:00",
    "Start": "2026-10-01T10:00:00",
    "End": "2026-10-01T11:00:00",
    "Cluster": "c",
    "JobID": "7",
    "JobName": "train",
    "User": "games",
    "UID": "5",
    "Account": "vision",
    "Partition": "gpu",
    "ExitCode": "0:0",
    "Timelimit": "1-00:00:00",
    "ElapsedRaw": "3600",
    "NCPUS": "8",
    "NNodes": "2",
    "AllocTRES": "cpu=8,mem=16G,node=2,gres/gpu:a100=2,energy=12.5M",
    "NodeList": "n[1-2]",
    "WorkDir": "/home/games",
    "TotalCPU": "1-02:03:04",
    "AdminComment": _comment(_JOBSTATS),
    "ConsumedEnergyRaw": "12500000",
}


def run(inputs: int, random: Random) -> Tried:
    """Import and report so many hostile lines."""
    tried = Tried()
    while tried.inputs < inputs:
        with tempfile.TemporaryDirectory(prefix="dlq-fuzz-") as folder:
            _one_history(Path(folder), tried, inputs, random)
    return tried


def _one_history(state: Path, tried: Tried, inputs: int, random: Random) -> None:
    settings = Settings(values={"paths.state_dir": str(state)})
    open_history(state / "history.db").close()
    for number in range(1, FILES + 1):
        if tried.inputs >= inputs:
            return
        file = _file(number, min(LINES, inputs - tried.inputs), random)
        path = state / "sacct.txt"
        path.write_bytes(file.text.encode("utf-8", "surrogateescape"))
        with tried.one(file.text, len(file.lines)), contextlib.redirect_stdout(io.StringIO()):
            _import(path, settings)
            _report(state, settings, FORMS[number % len(FORMS)])
        if not _is_in(state, number):
            tried.add(STUCK, file.text, "the honest job at the file's end is not in the history")


@dataclass(frozen=True, slots=True)
class _File:
    lines: list[str]
    text: str


def _file(number: int, many: int, random: Random) -> _File:
    """A file of hostile lines under an honest header, with an honest line at its end."""
    lines = [_line(random).replace("\n", " ") for _ in range(many)]
    honest = _joined({**_HONEST, "JobIDRaw": str(10**9 + number)})
    return _File(lines, "\n".join(("|".join(COLUMNS), *lines, honest)) + "\n")


def _line(random: Random) -> str:
    """An honest line, damaged in some fields or as a whole."""
    fields = {**_HONEST, "JobIDRaw": str(random.randrange(1, 10**6))}
    if random.random() < 0.2:
        return _encodable(mutated_text(_joined(fields), random))
    if random.random() < 0.2:
        fields["AdminComment"] = _comment(mutated(_JOBSTATS, random))
    for _ in range(random.randint(1, 3)):
        name = random.choice(COLUMNS)
        damaged = mutated_text(fields[name], random).replace("|", "/")
        fields[name] = random.choice((damaged, damaged, random.choice(TOKENS)))
    return _encodable(_joined(fields))


def _encodable(text: str) -> str:
    """Half characters as the bytes of a file that is not UTF-8."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")


def _joined(fields: dict[str, str]) -> str:
    return "|".join(fields[name] for name in COLUMNS)


def _import(path: Path, settings: Settings) -> None:
    args = Namespace(file=str(path), delimiter="|", timezone="UTC", since="365d", json=False)
    with contextlib.suppress(DlqueueError):
        import_runs.run(args, settings)


def _report(state: Path, settings: Settings, form: str) -> None:
    with open_history(state / "history.db", read_only=True) as history:
        report = report_of(
            history,
            settings,
            since_s=None,
            until_s=None,
            account=None,
            users=None,
            progress=lambda _: None,
        )
    written(report, form, None)


def _is_in(state: Path, number: int) -> bool:
    with open_history(state / "history.db", read_only=True) as history:
        found = history.conn.execute("SELECT 1 FROM runs WHERE job_id = ?", (10**9 + number,))
        return found.fetchone() is not None


PAIR = Pair(name="accounting", about="sacct → import → report", share=0.07, run=run)
