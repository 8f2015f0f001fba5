"""Ultralytics' own training engine: `python -m ...kits.ultralytics NAME`."""

import tempfile
from pathlib import Path

import torch

from contrib.bench.foreign.programs.kits import start
from contrib.bench.foreign.programs.truth import Truth


def detector():
    """YOLO from its own description of the network, on pictures made here."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for part, count in (("train", 96), ("val", 8)):
            (root / "images" / part).mkdir(parents=True)
            (root / "labels" / part).mkdir(parents=True)
            for i in range(count):
                Image.new("RGB", (64, 64), (i, 2 * i % 255, 9)).save(
                    root / f"images/{part}/{i}.png"
                )
                (root / f"labels/{part}/{i}.txt").write_text("0 0.5 0.5 0.4 0.4\n")
        (root / "data.yaml").write_text(
            f"path: {root}\ntrain: images/train\nval: images/val\nnames: [thing]\n"
        )
        from ultralytics import YOLO

        _suppress_in_python()
        truth, yolo = Truth(), YOLO("yolov8n.yaml")
        yolo.add_callback("on_train_epoch_start", lambda _: truth.begin())
        yolo.add_callback("on_train_epoch_end", lambda _: truth.end())
        yolo.add_callback(
            "on_train_batch_end",
            lambda t: truth.trained(16, (t.loss if t.loss.ndim == 0 else t.loss.sum()).item()),
        )
        yolo.train(
            data=str(root / "data.yaml"),
            epochs=10,
            batch=16,
            imgsz=64,
            workers=0,
            device="cpu",
            amp=False,
            plots=False,
            save=False,
            val=False,
            verbose=False,
            project=folder,
        )
    truth.tell()


def _suppress_in_python():
    """Its validations drop overlapping boxes by an operator that needs torchvision's binary."""
    import torchvision

    def nms(boxes, scores, iou_threshold):
        left, kept = scores.argsort(descending=True), []
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        while left.numel():
            best, left = left[0], left[1:]
            kept.append(best)
            low = torch.maximum(boxes[best, :2], boxes[left, :2])
            high = torch.minimum(boxes[best, 2:], boxes[left, 2:])
            shared = (high - low).clamp(min=0).prod(1)
            left = left[shared / (areas[best] + areas[left] - shared) <= iou_threshold]
        return torch.stack(kept) if kept else left

    torchvision.ops.nms = nms


if __name__ == "__main__":
    start(globals())
