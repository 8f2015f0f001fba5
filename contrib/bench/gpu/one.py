"""Measure one row in a process of its own, which may crash, hang or leave CUDA unusable.

    python -m contrib.bench.gpu.one ROW HERE FILE

HERE is `Here.json()`. FILE gets a JSON object: `status` (measured, absent, failed, cut), `why` in
one line, `figures`, `absent` and `facts`. On SIGTERM the row ends, with what it has.
"""

import json
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from contrib.bench.gpu.here import Here, from_json
from contrib.bench.gpu.report import AbsentError, CutError, Report
from contrib.bench.gpu.table import ROWS, RowKind

MOST = 300  # characters of a reason


def outcome(kind: RowKind, here: Here) -> dict[str, Any]:
    """The row as JSON, whatever it raised."""
    report = Report()
    status, why = "measured", ""
    try:
        kind.measure()(here, report)
    except AbsentError as error:
        status, why = "absent", str(error)
    except ModuleNotFoundError as error:
        status, why = "absent", f"{error.name} is not installed"
    except CutError:
        status, why = "cut", "its time was over"
    except Exception as error:  # whatever it was: the other rows go on
        status, why = "failed", line_of(error)
    return {
        "status": status,
        "why": why,
        "figures": report.figures(),
        "absent": report.absent,
        "facts": report.facts,
    }


def line_of(error: BaseException) -> str:
    """An error in one line, with its place."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text}"[:MOST] + place


def _cut(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: it is cleaning up
    raise CutError


def main() -> None:
    """Measure, and write the file."""
    signal.signal(signal.SIGTERM, _cut)
    name, here, path = sys.argv[1:]
    kind = next(kind for kind in ROWS if kind.name == name)
    Path(path).write_text(json.dumps(outcome(kind, from_json(json.loads(here)))), encoding="utf-8")


if __name__ == "__main__":
    main()
