"""Kits that own the loop: `python -m ...visitors.fitted NAME`."""

import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader

from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.truth import Truth, same_each_time


def torchtnt():
    """torchtnt's AutoUnit: accumulation over three batches, an evaluation within the epoch."""
    from torchtnt.framework.auto_unit import AutoUnit
    from torchtnt.framework.fit import fit

    same_each_time()
    truth = Truth()

    class Unit(AutoUnit):
        def compute_loss(self, _state, data):
            x, y = data
            out = self.module(x)
            loss = F.cross_entropy(out, y)
            if self.module.training:
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
            return loss, out

        def configure_optimizers_and_lr_scheduler(self, module):
            return torch.optim.AdamW(module.parameters(), 1e-3), None

        def on_train_epoch_start(self, _state):
            truth.begin()

        def on_train_epoch_end(self, state):
            super().on_train_epoch_end(state)
            truth.end()

        def on_eval_start(self, _state):
            truth.end()

        def on_eval_end(self, _state):
            truth.begin()

    unit = Unit(module=model(), device=torch.device("cpu"), gradient_accumulation_steps=3)
    fit(
        unit,
        DataLoader(Images(480), batch_size=16, shuffle=True),
        DataLoader(Images(80), batch_size=40),
        max_epochs=3,
        evaluate_every_n_steps=17,
        evaluate_every_n_epochs=None,
    )
    truth.tell()


def torchbearer():
    """torchbearer's Trial: `with_generators`, `run`."""
    import torchbearer
    from torchbearer import Trial, callbacks

    same_each_time()
    truth, net = Truth(), model()

    @callbacks.on_start_training
    def begin(_):
        truth.begin()

    @callbacks.on_end_training
    def end(_):
        truth.end()

    @callbacks.on_step_training
    def stepped(state):
        truth.trained(len(state[torchbearer.X]), state[torchbearer.LOSS].item())
        time.sleep(STEP_S)

    trial = Trial(
        net,
        torch.optim.Adam(net.parameters(), 1e-3),
        torch.nn.CrossEntropyLoss(),
        metrics=["acc", "loss"],
        callbacks=[begin, end, stepped],
        verbose=0,
    )
    trial.with_generators(
        train_generator=DataLoader(Images(480), batch_size=16, shuffle=True),
        val_generator=DataLoader(Images(80), batch_size=40),
    )
    trial.run(epochs=3)
    truth.tell()


def pytorch_accelerated():
    """A Trainer on Accelerate: datasets go in, loaders are its own."""
    from pytorch_accelerated import Trainer
    from pytorch_accelerated.callbacks import TrainerCallback

    same_each_time()
    truth, net = Truth(), model()

    class Clock(TrainerCallback):
        def on_train_epoch_start(self, *_, **__):
            truth.begin()

        def on_train_step_end(self, _trainer, batch, batch_output, **_):
            truth.trained(len(batch[0]), batch_output["loss"].item())
            time.sleep(STEP_S)

        def on_train_epoch_end(self, *_, **__):
            truth.end()

    Trainer(
        net,
        loss_func=torch.nn.CrossEntropyLoss(),
        optimizer=torch.optim.AdamW(net.parameters(), 1e-3),
        callbacks=[Clock],
    ).train(
        train_dataset=Images(480),
        eval_dataset=Images(80),
        num_epochs=3,
        per_device_batch_size=16,
        train_dataloader_kwargs={"num_workers": 0},
        eval_dataloader_kwargs={"num_workers": 0},
    )
    truth.tell()


def torchtuples():
    """pycox's way: tensors in memory, `fit` with a loader of torchtuples' own."""
    import torchtuples as tt

    same_each_time()
    truth = Truth()
    rows = torch.sin(torch.arange(2400.0 * 16).reshape(2400, 16)).numpy()
    wanted = torch.arange(2400).remainder(7).float()[:, None].numpy()
    net = tt.practical.MLPVanilla(16, [16], 1)

    class Clock(tt.cb.Callback):
        def on_epoch_start(self):
            truth.begin()

        def on_batch_end(self):
            loss = self.model.batch_metrics["loss"]
            truth.trained(16, loss.item() if hasattr(loss, "item") else loss)
            time.sleep(STEP_S / 4)

        def on_epoch_end(self):
            truth.end()

    learner = tt.Model(net, torch.nn.MSELoss(), tt.optim.Adam(1e-3))
    learner.fit(rows, wanted, 16, 3, [Clock()], verbose=False)
    truth.tell()


def deepxde():
    """DeepXDE on torch: `Model.train`, points of a domain, no loader."""
    import os

    os.environ["DDE_BACKEND"] = "pytorch"
    import deepxde as dde

    same_each_time()
    dde.config.set_random_seed(1)
    truth = Truth()

    def equation(t, u):
        return dde.grad.hessian(u, t) + 9 * u

    class Clock(dde.callbacks.Callback):
        def on_train_begin(self):
            truth.begin()

        def on_batch_end(self):
            truth.trained(66, 0.0)
            time.sleep(STEP_S)

        def on_train_end(self):
            truth.end()

    domain = dde.geometry.TimeDomain(0, 1)
    start_at = dde.icbc.IC(domain, lambda _: 1, lambda _, initial: initial)
    data = dde.data.PDE(domain, equation, [start_at], num_domain=64, num_boundary=2)
    learner = dde.Model(data, dde.nn.FNN([1, 16, 16, 1], "tanh", "Glorot uniform"))
    learner.compile("adam", lr=1e-3, verbose=0)
    history, _ = learner.train(iterations=300, display_every=100, callbacks=[Clock()], verbose=0)
    truth.trained(0, history.loss_train[-1].sum())
    truth.steps -= 1
    truth.tell()


def pykeen():
    """PyKEEN's pipeline: triples, negative samples drawn by its own collator."""
    import numpy as np
    from pykeen.pipeline import pipeline
    from pykeen.training.callbacks import TrainingCallback
    from pykeen.triples import TriplesFactory

    same_each_time()
    truth = Truth()
    numbers = np.arange(900)
    names = np.stack([numbers % 60, numbers % 5, numbers * 7 % 53], 1).astype(str)
    triples = TriplesFactory.from_labeled_triples(names)

    class Clock(TrainingCallback):
        def on_batch(self, batch, batch_loss, **_):
            truth.trained(len(batch["positives"]), batch_loss)
            time.sleep(STEP_S)

        def post_epoch(self, epoch_loss, **_):
            truth.trained(0, epoch_loss)
            truth.steps -= 1

        def pre_batch(self, **_):
            if not truth.steps:
                truth.begin()

        def post_train(self, *_, **__):
            truth.end()

    pipeline(
        training=triples,
        testing=triples,
        model="TransE",
        model_kwargs={"embedding_dim": 8},
        training_kwargs={
            "num_epochs": 15,
            "batch_size": 16,
            "use_tqdm": False,
            "callbacks": [Clock()],
        },
        evaluation_kwargs={"use_tqdm": False},
        random_seed=1,
        device="cpu",
    )
    truth.tell()


def optuna():
    """A study: trials one after the other, some pruned in the middle of an epoch."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    truth = Truth()

    def objective(trial):
        same_each_time()
        net = model()
        rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
        size = trial.suggest_categorical("size", [8, 16])
        optimizer = torch.optim.SGD(net.parameters(), rate)
        loader = DataLoader(Images(160), batch_size=size, shuffle=True)
        truth.begin()
        for epoch in range(2):
            for number, (x, y) in enumerate(loader):
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
                trial.report(loss.item(), epoch * len(loader) + number)
                if trial.should_prune():
                    truth.end()
                    raise optuna.TrialPruned
        truth.end()
        return loss.item()

    pruner = optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=4)
    sampler = optuna.samplers.RandomSampler(seed=3)
    optuna.create_study(sampler=sampler, pruner=pruner).optimize(objective, n_trials=8)
    truth.tell()


if __name__ == "__main__":
    start(globals())
