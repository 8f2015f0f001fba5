"""Real DataLoaders as jobs use them; run with and without the probe.

Usage: python -m tests.probe.loader_scenarios GROUP... (scenario_runs.py says what it prints)
"""

from tests.probe import (  # noqa: F401 - each lists its scenarios
    loaders_changed,
    loaders_changed_deep,
    loaders_gated,
    loaders_left_alone,
    loaders_lifted,
    loaders_listed,
    loaders_measured,
    loaders_noting,
    loaders_opened,
    loaders_seeded,
    loaders_shown,
)
from tests.probe.scenario_runs import main

if __name__ == "__main__":
    main()
