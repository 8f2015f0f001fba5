"""Programs with long lists of annotations, which none of the other scenarios' code is among.

Usage: python -m tests.probe.annotated_scenarios GROUP... (scenario_runs.py says what it prints)
"""

from tests.probe import (  # noqa: F401 - each lists its scenarios
    loaders_apart,
    loaders_written,
    loaders_written_late,
)
from tests.probe.scenario_runs import main

if __name__ == "__main__":
    main()
