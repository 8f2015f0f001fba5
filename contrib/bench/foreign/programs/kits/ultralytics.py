"""Ultralytics' own training engine: `python -m ...kits.ultralytics NAME`."""

import tempfile
from pathlib import Path

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

        truth, yolo = Truth(), YOLO("yolov8n.yaml")
        yolo.add_callback("on_train_epoch_start", lambda _: truth.begin())
        yolo.add_callback("on_train_epoch_end", lambda _: truth.end())
        yolo.add_callback(
            "on_train_batch_end",
            lambda t: truth.trained(16, (t.loss if t.loss.ndim == 0 else t.loss.sum()).item()),
        )
        yolo.train(
            data=str(root / "data.yaml"),
            epochs=2,
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


if __name__ == "__main__":
    start(globals())
