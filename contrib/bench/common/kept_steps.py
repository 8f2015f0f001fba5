"""Steps of a long benchmark that can be stopped: their figures stay in a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Figures = dict[str, Any]


class KeptSteps:
    """Figures by step, of one set of conditions: others start a new file."""

    def __init__(self, path: Path, conditions: str) -> None:
        self._path, self._conditions = path, conditions
        kept = json.loads(path.read_text()) if path.exists() else {}
        self._steps: dict[str, Figures] = (
            kept["steps"] if kept.get("conditions") == conditions else {}
        )

    def step(self, name: str, measure: Callable[[], Figures]) -> Figures:
        """The figures of a step, measured unless an earlier run has done so."""
        if name not in self._steps:
            self._steps[name] = measure()
            text = json.dumps({"conditions": self._conditions, "steps": self._steps}, indent=1)
            hidden = self._path.with_name(f".{self._path.name}")
            hidden.write_text(text)
            hidden.replace(self._path)
        return self._steps[name]
