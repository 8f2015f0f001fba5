"""OpenMMLab's engine: `python -m ...kits.openmmlab NAME`."""

import tempfile
import time

import torch.nn.functional as F  # noqa: N812 - torch's examples import it so

from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.truth import Truth, same_each_time


def runner():
    """OpenMMLab's Runner: loaders from dictionaries, a validation after each epoch, hooks."""
    from mmengine.evaluator import BaseMetric, Evaluator
    from mmengine.hooks import Hook
    from mmengine.model import BaseModel
    from mmengine.runner import Runner

    same_each_time()  # the Runner seeds after the weights are drawn
    truth = Truth()

    class Net(BaseModel):
        def __init__(self):
            super().__init__()
            self.net = model()

        def forward(self, x, y, mode):
            if mode != "loss":
                return self.net(x), y
            loss = F.cross_entropy(self.net(x), y)
            truth.trained(len(x), loss.item())
            time.sleep(STEP_S)
            return {"loss": loss}

    class Right(BaseMetric):
        def process(self, _, outputs):
            self.results.append(int((outputs[0].argmax(1) == outputs[1]).sum()))

        def compute_metrics(self, results):
            return {"right": sum(results)}

    class Clock(Hook):
        priority = "HIGHEST"

        def before_train_epoch(self, _):
            truth.begin()

        def after_train_epoch(self, _):
            truth.end()

    def loader(count, size, shuffle):
        sampler = {"type": "DefaultSampler", "shuffle": shuffle}
        collate = {"type": "default_collate"}
        return {
            "dataset": Images(count),
            "batch_size": size,
            "sampler": sampler,
            "num_workers": 0,
            "collate_fn": collate,
        }

    with tempfile.TemporaryDirectory() as folder:
        Runner(
            Net(),
            folder,
            train_dataloader=loader(320, 16, True),
            train_cfg={"by_epoch": True, "max_epochs": 3, "val_interval": 1},
            optim_wrapper={"optimizer": {"type": "SGD", "lr": 1e-3}},
            val_dataloader=loader(96, 48, False),
            val_cfg={},
            val_evaluator=Evaluator(Right()),
            custom_hooks=[Clock()],
            default_hooks={"checkpoint": None, "logger": None},
            randomness={"seed": 5},
            log_level="ERROR",
        ).train()
    truth.tell()


if __name__ == "__main__":
    start(globals())
