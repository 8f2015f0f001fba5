"""Print a JSON line of what torch has here: `torch`, `cuda`, `devices`, and `why` there is none."""

import importlib.util
import json
from typing import Any


def about() -> dict[str, Any]:
    """Facts of torch; `why` is empty where CUDA computes."""
    if importlib.util.find_spec("torch") is None:
        return {"why": "torch is not installed"}
    import torch

    facts: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda, "devices": []}
    if torch.version.cuda is None:
        return facts | {"why": f"torch {torch.__version__} has no CUDA build"}
    try:
        facts["devices"] = [
            torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())
        ]
        float(torch.ones(8, device="cuda").sum())
    except Exception as error:  # torch has many errors for a CUDA that does not start
        return facts | {"why": f"CUDA does not start: {str(error).splitlines()[0][:200]}"}
    return facts | {"why": ""}


if __name__ == "__main__":
    print(json.dumps(about()))
