"""Bytes of gradients by the models' sizes, and the seconds that a byte took: the probe's knowledge.

The table has the seconds of a step in which a rank synchronised and did nothing else. Bytes are
four a parameter: BERT base (110 million), ResNet-18 (11.2), NeuMF on MovieLens 1M with 32 factors
and three layers (1.6), YOLOv3 (61.9).
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from contrib.bench.recommend.measured import GPUS
from contrib.bench.throughput.tables import NAME, lines_of, site
from slurm_ext.core.gpu_request import is_model
from slurm_ext.model.scaling.by_bytes import ByteSeconds, GradientBytes

BYTES = {"bert": 4 * 110e6, "cifar10": 4 * 11.2e6, "ncf": 4 * 1.6e6, "yolov3": 4 * 61.9e6}


def sent(folder: Path) -> list[ByteSeconds]:
    """The median of each model and layout on each kind of GPU. Raises InputError."""
    found: dict[tuple[str, str, int, int], list[float]] = defaultdict(list)
    for _, cells in lines_of(folder / NAME):
        model, cluster = cells["model"], site(cells["cluster"])
        if cluster in GPUS and model in BYTES and len(set(cells["placement"])) <= 1:
            ranks, nodes = int(cells["num_gpus"]), int(cells["num_nodes"])
            found[model, GPUS[cluster], ranks, nodes].append(float(cells["sync_time"]))
    return [
        ByteSeconds(
            training=model, gpu=gpu, ranks=ranks, nodes=nodes, seconds=median(each) / BYTES[model]
        )
        for (model, gpu, ranks, nodes), each in found.items()
        if ranks % nodes == 0
    ]


def gradients(rows: Sequence[ByteSeconds], model: str) -> GradientBytes:
    """The model's size, and what a byte took the others."""
    others = [one for one in rows if one.training != model]
    return GradientBytes(size=BYTES[model], others=others, is_gpu=is_model)
