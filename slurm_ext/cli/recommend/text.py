"""Lines of `dlqueue recommend` for people."""

from collections.abc import Iterator, Mapping
from typing import Any

MOST_SHOWN = 4  # other packings in the text for people; all are in the JSON


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document of `recommend.recommended`, one fact a line."""
    best = document["recommendation"]
    if best is None:
        yield f"{document['job']}: no recommendation"
    else:
        yield f"{document['job']}: {_packing(best)}"
        yield f"why:      {best['reason']}"
    for what in document["missing"]:
        yield f"missing:  {what}"
    yield from _evidence(document)
    for other in document["others"][:MOST_SHOWN]:
        yield f"other:    {_packing(other)}"
    if best is not None and best["ranks_per_gpu"] > 1:
        yield (
            f"next:     RANKS_PER_GPU={best['ranks_per_gpu']} sbatch ranks.sbatch (job_templates/),"
            f" each rank with a batch of {best['batch']} and {best['workers']} workers;"
            " try some dozen steps before you keep it"
        )


def _packing(packing: Mapping[str, Any]) -> str:
    ranks, workers = packing["ranks_per_gpu"], packing["workers"]
    return (
        f"{ranks} rank{'' if ranks == 1 else 's'} per GPU, batch {packing['batch']} and {workers}"
        f" worker{'' if workers == 1 else 's'} each: {packing['samples_per_s']:.4g} samples/s"
        f" ({1 + packing['gain']:.2f}x one rank)"
    )


def _evidence(document: Mapping[str, Any]) -> Iterator[str]:
    runs = document["runs"]
    if not runs:
        return
    named = ", ".join(str(run["job_id"]) for run in runs[:MOST_SHOWN])
    more = f" and {len(runs) - MOST_SHOWN} more" if len(runs) > MOST_SHOWN else ""
    yield f"on:       {len(runs)} runs, {document['level']} (jobs {named}{more})"
    profile = document["profile"]
    if profile is not None:
        fixed_gib = profile["fixed_bytes"] / 2**30
        yield (
            f"measured: a step of {profile['batch']} samples takes {1e3 * profile['host_s']:.4g} ms"
            f" of the host and {1e3 * profile['kernel_s']:.4g} ms of the GPU;"
            f" {fixed_gib:.3g} GiB a rank"
        )
