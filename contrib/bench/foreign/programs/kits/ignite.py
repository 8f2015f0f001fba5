"""ignite's Engine, and MONAI's on it: `python -m ...kits.ignite NAME`."""

import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader

from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.truth import Truth, same_each_time


def supervised():
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer

    same_each_time()
    net, truth = model(), Truth()
    trainer = create_supervised_trainer(
        net,
        torch.optim.SGD(net.parameters(), lr=1e-3),
        F.cross_entropy,
        output_transform=lambda x, _y, _p, loss: truth.trained(len(x), loss.item()),
    )
    evaluator = create_supervised_evaluator(net)
    held_out = DataLoader(Images(100), batch_size=50)
    trainer.add_event_handler(Events.EPOCH_STARTED, truth.begin)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, truth.end)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(held_out))
    trainer.run(DataLoader(Images(), batch_size=16, shuffle=True), max_epochs=3)
    truth.tell()


def events():
    """A process function of one's own; evaluations on the training data, too, by iterations."""
    from ignite.engine import Engine, Events, create_supervised_evaluator
    from ignite.metrics import Accuracy

    same_each_time()
    net, truth = model(), Truth()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    train = DataLoader(Images(320), batch_size=16, shuffle=True)
    check = DataLoader(Images(96), batch_size=48)

    def step(_, batch):
        net.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(net(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        truth.trained(len(batch[0]), loss.item())
        time.sleep(STEP_S)

    trainer = Engine(step)
    evaluator = create_supervised_evaluator(net, {"accuracy": Accuracy()})
    trainer.add_event_handler(Events.STARTED, truth.begin)

    @trainer.on(Events.ITERATION_COMPLETED(every=20))
    def evaluate():
        truth.end()
        evaluator.run(train)
        evaluator.run(check)
        truth.begin()

    trainer.add_event_handler(Events.COMPLETED, truth.end)
    trainer.run(train, max_epochs=4)
    truth.tell()


def monai():
    """SupervisedTrainer with dictionaries, an evaluator as handler after each epoch."""
    from ignite.engine import Events
    from monai.data import DataLoader as Monai
    from monai.data import Dataset as Table
    from monai.engines import SupervisedEvaluator, SupervisedTrainer
    from monai.handlers import ValidationHandler

    same_each_time()
    net, truth, images = model(), Truth(), Images()

    def rows(count):
        def read(number):
            picture, label = images[number]
            return {"image": picture, "label": torch.tensor(label)}

        return Table(list(range(count)), transform=read)

    device = torch.device("cpu")
    evaluator = SupervisedEvaluator(device, Monai(rows(96), batch_size=48), net)

    def losses(logits, target):
        loss = F.cross_entropy(logits, target)
        truth.trained(len(logits), loss.item())
        time.sleep(STEP_S)
        return loss

    trainer = SupervisedTrainer(
        device=device,
        max_epochs=3,
        train_data_loader=Monai(rows(320), batch_size=16, shuffle=True),
        network=net,
        optimizer=torch.optim.Adam(net.parameters(), 1e-3),
        loss_function=losses,
        train_handlers=[ValidationHandler(1, evaluator)],
    )
    trainer.add_event_handler(Events.EPOCH_STARTED, truth.begin)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, truth.end)
    order = trainer._event_handlers[Events.EPOCH_COMPLETED]
    order.insert(0, order.pop())  # the clock stops before the validation begins
    trainer.run()
    truth.tell()


if __name__ == "__main__":
    start(globals())
