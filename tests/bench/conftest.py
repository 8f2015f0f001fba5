"""Benchmarks are programs beside each other, not a package: their folder goes on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "contrib" / "bench"))
