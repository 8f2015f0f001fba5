"""What is known of slowdowns, as the training last promoted it."""

from pathlib import Path

from slurm_ext.model.slowdown import Slowdowns
from slurm_ext.policy.sharing import Foretells


class Known:
    """The model in `<state_dir>/models/slowdown/current`; without one, jobs in general."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "models" / "slowdown"
        self._general = Slowdowns()

    def __call__(self) -> Foretells:
        """The newest; asked for before each round."""
        return self._general
