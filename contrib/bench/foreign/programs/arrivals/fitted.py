"""Libraries whose `fit` or `train` owns the loop: `python -m ...arrivals.fitted NAME`."""

import os
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from contrib.bench.foreign.programs.data import COST_S
from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.truth import Truth, same_each_time


def recbole():
    """RecBole: its own DataLoader draws negatives for each batch; an evaluation each epoch."""
    import numpy as np

    np.float_, np.complex_, np.unicode_ = np.float64, np.complex128, np.str_  # as of numpy 1
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.model.general_recommender import BPR
    from recbole.trainer import Trainer

    same_each_time()
    truth = Truth()

    class Counted(BPR):
        def calculate_loss(self, interaction):
            loss = super().calculate_loss(interaction)
            truth.trained(len(interaction), loss.item())
            time.sleep(STEP_S)
            return loss

    class Timed(Trainer):
        def _train_epoch(self, *args, **kwargs):
            with truth.training():
                return super()._train_epoch(*args, **kwargs)

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("toy").mkdir()
        rows = [f"u{n % 40}\ti{n * 7 % 83}\t{n % 5}\t{n}" for n in range(2400)]
        head = "user_id:token\titem_id:token\trating:float\ttimestamp:float"
        Path("toy/toy.inter").write_text("\n".join([head, *rows]))
        sizes = {"train_batch_size": 32, "eval_batch_size": 512, "epochs": 4}
        quiet = {"show_progress": False, "use_gpu": False, "data_path": folder, "worker": 0}
        config = Config(
            model="BPR", dataset="toy", config_dict={**sizes, **quiet, "state": "ERROR"}
        )
        data = create_dataset(config)
        train, valid, _ = data_preparation(config, data)
        net = Counted(config, train.dataset)
        Timed(config, net).fit(train, valid, verbose=False, saved=False, show_progress=False)
        os.chdir("/")
    truth.tell()


def sbi():
    """sbi's neural posterior: tensors in memory, a validation of a tenth after each epoch."""
    from sbi.inference import NPE
    from torch.distributions import MultivariateNormal

    same_each_time()
    truth = Truth()

    class Timed(NPE):
        def _train_epoch(self, *args, **kwargs):
            with truth.training():
                return super()._train_epoch(*args, **kwargs)

        def _get_losses(self, batch, **kwargs):
            losses = super()._get_losses(batch, **kwargs)
            if torch.is_grad_enabled():
                truth.trained(len(losses), losses.mean().item())
                time.sleep(STEP_S)
            return losses

    prior = MultivariateNormal(torch.zeros(3), torch.eye(3))
    theta = prior.sample((2000,))
    seen = theta + 0.1 * torch.randn(2000, 3)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # it keeps its logs there
        learner = Timed(prior, density_estimator="mdn", show_progress_bars=False)
        learner.append_simulations(theta, seen)
        learner.train(training_batch_size=40, max_num_epochs=5, stop_after_epochs=50)
        os.chdir("/")
    truth.tell()


def neural_operator():
    """neuraloperator's Trainer: batches are dictionaries, an evaluation of two resolutions."""
    from neuralop import Trainer

    same_each_time()
    truth = Truth()

    class Fields(Dataset):
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return self.rows

        def __getitem__(self, index):
            time.sleep(COST_S)
            x = torch.sin(torch.arange(256.0) * (index + 1) / 40).reshape(1, 16, 16)
            return {"x": x, "y": x.cumsum(-1) / 16}

    class Timed(Trainer):
        def train_one_epoch(self, *args, **kwargs):
            with truth.training():
                return super().train_one_epoch(*args, **kwargs)

        def train_one_batch(self, idx, sample, training_loss):
            rows = len(sample["x"])
            loss = super().train_one_batch(idx, sample, training_loss)
            truth.trained(rows, loss.item())
            time.sleep(STEP_S)
            return loss

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Conv2d(1, 1, 5, padding=2)

        def forward(self, x, **_):
            return self.net(x)

    class Squared:
        def __call__(self, out, y, **_):
            return (out - y).square().mean()

    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    tests = {size: DataLoader(Fields(size), batch_size=16) for size in (32, 64)}
    trainer = Timed(model=net, n_epochs=4, eval_interval=2, device="cpu", verbose=False)
    trainer.train(
        DataLoader(Fields(400), batch_size=16, shuffle=True),
        tests,
        optimizer,
        schedule,
        training_loss=Squared(),
        eval_losses={"l2": Squared()},
    )
    truth.tell()


def _clock(truth, rows_of):
    """A callback of pytorch_lightning's; `rows_of` gives a batch's rows."""
    from pytorch_lightning.callbacks import Callback

    class Clock(Callback):
        def on_train_epoch_start(self, *_):
            truth.begin()

        def on_train_batch_end(self, _trainer, _module, outputs, batch, _index):
            truth.trained(len(rows_of(batch)), outputs["loss"].item())
            time.sleep(STEP_S)

        def on_train_epoch_end(self, *_):
            truth.end()

        def on_validation_start(self, trainer, _module):
            if not trainer.sanity_checking:
                truth.end()

        def on_validation_end(self, trainer, _module):
            if not trainer.sanity_checking:
                truth.begin()

    return Clock()


def pytorch_tabular():
    """pytorch_tabular: a table goes in, Lightning and its loaders are inside."""
    import numpy as np
    import pandas as pd
    from pytorch_tabular import TabularModel
    from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig
    from pytorch_tabular.models import CategoryEmbeddingModelConfig

    same_each_time()
    truth = Truth()

    numbers = np.arange(1600)
    table = pd.DataFrame({"a": np.sin(numbers), "b": np.cos(numbers), "kind": numbers % 5})
    table["wanted"] = (numbers % 3 == 0).astype(int)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        learner = TabularModel(
            data_config=DataConfig(
                ["wanted"], continuous_cols=["a", "b"], categorical_cols=["kind"]
            ),
            model_config=CategoryEmbeddingModelConfig(task="classification", layers="16-8"),
            optimizer_config=OptimizerConfig(),
            trainer_config=TrainerConfig(
                batch_size=16,
                max_epochs=3,
                accelerator="cpu",
                early_stopping=None,
                checkpoints=None,
                load_best=False,
                progress_bar="none",
                auto_lr_find=False,
            ),
            verbose=False,
        )
        learner.fit(train=table, callbacks=[_clock(truth, lambda batch: batch["target"])])
        os.chdir("/")
    truth.tell()


def darts():
    """Darts: series go in, Lightning is inside; its samples are windows."""
    import numpy as np
    from darts import TimeSeries
    from darts.models import NBEATSModel

    same_each_time()
    truth = Truth()

    series = [TimeSeries.from_values(np.sin(np.arange(300.0) / (n + 3))) for n in range(4)]
    clock = _clock(truth, lambda batch: batch.past_target)
    kept = {"accelerator": "cpu", "enable_progress_bar": False, "callbacks": [clock]}
    sizes = {"num_stacks": 2, "num_layers": 2, "layer_widths": 16, "batch_size": 16, "n_epochs": 3}
    learner = NBEATSModel(24, 6, random_state=1, pl_trainer_kwargs=kept, **sizes)
    learner.fit([one.astype(np.float32) for one in series], verbose=False)
    truth.tell()


def setfit():
    """SetFit: sentence pairs through its Trainer, then a head by scikit-learn."""
    from datasets import Dataset as Rows
    from setfit import SetFitModel, Trainer, TrainingArguments
    from sklearn.linear_model import LogisticRegression
    from transformers import TrainerCallback

    from contrib.bench.foreign.programs.fine_tuning import _embedder, _text

    same_each_time()
    truth = Truth()

    class Clock(TrainerCallback):
        def on_train_begin(self, *_, **__):
            truth.begin()

        def on_step_end(self, *_, **__):
            truth.trained(8, 0.0)
            time.sleep(STEP_S)

        def on_train_end(self, *_, **__):
            truth.end()

    rows = Rows.from_list([{"text": _text(n), "label": n % 2} for n in range(40)])
    learner = SetFitModel(model_body=_embedder(), model_head=LogisticRegression())
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            batch_size=8,
            max_steps=120,
            report_to="none",
            show_progress_bar=False,
            save_strategy="no",
        )
        trainer = Trainer(model=learner, args=args, train_dataset=rows, callbacks=[Clock()])
        trainer.train()
    truth.saw(learner.predict([_text(3)]).tolist())
    truth.tell()


def spacy():
    """spaCy: `nlp.update` on thinc, whose layers are numpy's: no torch at all."""
    import spacy
    from spacy.training import Example
    from spacy.util import fix_random_seed, minibatch

    truth = Truth()
    nlp = spacy.blank("en")
    fix_random_seed(1)
    labels = nlp.add_pipe("textcat")
    labels.add_label("even")
    labels.add_label("odd")
    words = [f"word{n % 13} and word{n % 7}" for n in range(400)]
    rows = [
        Example.from_dict(nlp.make_doc(text), {"cats": {"even": n % 2 == 0, "odd": n % 2 == 1}})
        for n, text in enumerate(words)
    ]
    optimizer = nlp.initialize(lambda: rows)
    for _ in range(3):
        with truth.training():
            for batch in minibatch(rows, size=8):
                losses = nlp.update(batch, sgd=optimizer)
                truth.trained(len(batch), losses["textcat"])
    truth.tell()


def neural_search():
    """BoTorch: a Gaussian process is fitted by SciPy's L-BFGS, again for each new point."""
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    same_each_time()
    truth = Truth()

    class Counted(ExactMarginalLogLikelihood):
        def forward(self, *args, **kwargs):
            found = super().forward(*args, **kwargs)
            truth.trained(1, found.sum().item())
            time.sleep(STEP_S)
            return found

    x = torch.rand(12, 2, dtype=torch.double)
    with truth.training():
        for _ in range(8):
            process = SingleTaskGP(x, torch.sin(x.sum(1, keepdim=True) * 6))
            fit_gpytorch_mll(Counted(process.likelihood, process))
            x = torch.cat([x, torch.rand(1, 2, dtype=torch.double)])
    truth.tell()


def flair():
    """Flair's ModelTrainer: sentences that keep their embeddings, a look at the dev set."""
    from flair.data import Corpus, Sentence
    from flair.datasets import FlairDatapointDataset
    from flair.embeddings import DocumentPoolEmbeddings, OneHotEmbeddings
    from flair.models import TextClassifier
    from flair.trainers import ModelTrainer

    same_each_time()
    truth = Truth()

    class Counted(TextClassifier):
        def forward_loss(self, sentences):
            loss, count = super().forward_loss(sentences)
            if self.training:
                truth.trained(len(sentences), loss.item())
                time.sleep(STEP_S)
            return loss, count

    def rows(first, last):
        made = [Sentence(f"word{n % 13} with word{n % 7}") for n in range(first, last)]
        for n, one in enumerate(made):
            one.add_label("kind", "even" if n % 2 else "odd")
        return FlairDatapointDataset(made)

    corpus = Corpus(train=rows(0, 1600), dev=rows(1600, 1680), test=rows(1680, 1700))
    words = DocumentPoolEmbeddings([OneHotEmbeddings.from_corpus(corpus)])
    kinds = corpus.make_label_dictionary("kind")
    learner = Counted(words, label_type="kind", label_dictionary=kinds)
    with tempfile.TemporaryDirectory() as folder, truth.training():
        ModelTrainer(learner, corpus).train(
            folder, max_epochs=3, mini_batch_size=16, save_final_model=False
        )
    truth.tell()


if __name__ == "__main__":
    start(globals())
