"""QSSF with real predictions against other queues: queue_policies.py says how it is measured.

    queue.py --train DIR --test DIR [--vcs FILE] [--json] [--quick]

A program's folder comes first on Python's path, so that every benchmark beside this one finds this
file where it means the standard library's `queue`: imported, it hands over that one.
"""

import sys


def _standard() -> None:
    """Put the standard library's module in this one's place."""
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path
    from sysconfig import get_path

    spec = spec_from_file_location(__name__, Path(get_path("stdlib")) / "queue.py")
    if spec is None or spec.loader is None:
        raise ImportError("the standard library's queue is not where it should be")
    sys.modules[__name__] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "__main__":
    from queue_policies import main  # type: ignore[import-not-found]  # beside this file

    sys.exit(main())
else:
    _standard()
