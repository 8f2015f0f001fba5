"""Real DataLoaders as jobs use them; run with and without the probe by test_probe_loaders.py.

Usage: python -m tests.probe.loader_scenarios GROUP. Prints one JSON object: scenario -> {"result",
"rows"}, where `rows` are the loaders' in the probe's summary (None without the probe).
"""

import json
import sys
from typing import Any

from tests.probe import (  # noqa: F401 - each lists its scenarios
    loaders_gated,
    loaders_left_alone,
    loaders_lifted,
    loaders_measured,
    loaders_opened,
    loaders_seeded,
)
from tests.probe.loader_frame import GROUPS


def last_row(before: int) -> Any:
    """Rows of the loaders that came after so many."""
    attach = sys.modules.get("_dlqueue_probe.attach")
    session = attach._Process.session if attach else None
    return [meter.row() for meter in session.meters.all[before:]] if session else None


def main() -> None:
    """Every scenario of the group, in its turn."""
    results = {}
    for function in GROUPS[sys.argv[1]]:
        attach = sys.modules.get("_dlqueue_probe.attach")
        session = attach._Process.session if attach else None
        before = len(session.meters.all) if session else 0
        for meter in session.meters.all if session else ():
            meter.facts["of"] = "before"  # alike as they look, these loaders are not one made anew
        results[function.__name__] = {"result": function(), "rows": last_row(before)}
    print(json.dumps(results))  # noqa: T201 - its output is its answer


if __name__ == "__main__":
    main()
