"""Loops of one's own on kits that have no loop: `python -m ...visitors.own_loops NAME`."""

import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
from torch.utils.data import DataLoader, Dataset

from contrib.bench.foreign.programs.data import COST_S, Images, model
from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.truth import Truth, same_each_time


def schedule_free():
    """Schedule-Free AdamW, whose `train` and `eval` the loop calls around validations."""
    import schedulefree

    same_each_time()
    net, truth = model(), Truth()
    optimizer = schedulefree.AdamWScheduleFree(net.parameters(), lr=2.5e-3, warmup_steps=10)
    loader = DataLoader(Images(480), batch_size=16, shuffle=True)
    held_out = DataLoader(Images(80), batch_size=40)
    for _ in range(3):
        net.train()
        optimizer.train()
        with truth.training():
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
        net.eval()
        optimizer.eval()
        with torch.no_grad():
            for x, _ in held_out:
                net(x)
    truth.tell()


def kornia():
    """Augmentation of whole batches by a module of kornia's; Lion as optimiser."""
    import kornia.augmentation as K  # noqa: N812 - its documentation imports it so
    from lion_pytorch import Lion

    same_each_time()
    net, truth = model(), Truth()
    augment = K.AugmentationSequential(
        K.RandomHorizontalFlip(), K.RandomAffine(10.0), data_keys=["input"]
    )
    optimizer = Lion(net.parameters(), lr=1e-4)
    for _ in range(3):
        with truth.training():
            for x, y in DataLoader(Images(480), batch_size=16, shuffle=True):
                loss = F.cross_entropy(net(augment(x)), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
    truth.tell()


def diffusers():
    """Its unconditional example: UNet2DModel, DDPMScheduler, Accelerate, EMAModel."""
    from accelerate import Accelerator
    from diffusers import DDPMScheduler, UNet2DModel
    from diffusers.optimization import get_cosine_schedule_with_warmup
    from diffusers.training_utils import EMAModel

    same_each_time()
    truth = Truth()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    net = UNet2DModel(
        sample_size=16,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )
    mean = EMAModel(net.parameters(), use_ema_warmup=True)
    noises = DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    loader = DataLoader(Images(320), batch_size=16, shuffle=True)
    rates = get_cosine_schedule_with_warmup(optimizer, 5, 3 * len(loader))
    net, optimizer, loader, rates = accelerator.prepare(net, optimizer, loader, rates)
    for _ in range(3):
        net.train()
        with truth.training():
            for clean, _ in loader:
                noise = torch.randn_like(clean)
                times = torch.randint(0, 100, (len(clean),))
                with accelerator.accumulate(net):
                    out = net(noises.add_noise(clean, noise, times), times).sample
                    loss = F.mse_loss(out, noise)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(net.parameters(), 1.0)
                    optimizer.step()
                    rates.step()
                    optimizer.zero_grad()
                if accelerator.sync_gradients:
                    mean.step(net.parameters())
                truth.trained(len(clean), loss.item())
    truth.tell()


def torchio_queue():
    """TorchIO's Queue: volumes by a loader of its own with a worker, patches by the outer one."""
    import torchio as tio

    same_each_time()
    volumes = [
        tio.Subject(
            image=tio.ScalarImage(
                tensor=torch.sin(torch.arange(32.0**3) * (n + 1)).reshape(1, 32, 32, 32)
            )
        )
        for n in range(10)
    ]
    data = tio.SubjectsDataset(volumes, transform=tio.ZNormalization())
    queue = tio.Queue(
        data, max_length=40, samples_per_volume=16, sampler=tio.UniformSampler(8), num_workers=1
    )
    net, truth = torch.nn.Conv3d(1, 4, 3), Truth()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    for _ in range(8):
        with truth.training():
            for batch in tio.SubjectsLoader(queue, batch_size=8, num_workers=0):
                x = batch["image"][tio.DATA]
                loss = net(x).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
    truth.tell()


def monai_smart_cache():
    """MONAI's SmartCacheDataset: threads replace a part of the cache between two epochs."""
    from monai.data import DataLoader as Loader
    from monai.data import SmartCacheDataset
    from monai.transforms import Compose, Lambda, RandFlipd
    from monai.utils import set_determinism

    set_determinism(7)
    pictures = Images(240)

    def read(number):
        return dict(zip(("image", "label"), pictures[number], strict=True))

    changed = Compose([Lambda(read), RandFlipd(keys=["image"], prob=0.5, spatial_axis=0)])
    data = SmartCacheDataset(
        list(range(240)),
        changed,
        replace_rate=0.2,
        cache_num=160,
        progress=False,
        num_init_workers=1,
        num_replace_workers=1,
    )
    loader = Loader(data, batch_size=16, num_workers=0)
    net, truth = model(), Truth()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    data.start()
    for _ in range(4):
        with truth.training():
            for batch in loader:
                loss = F.cross_entropy(net(batch["image"].as_tensor()), batch["label"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(len(batch["label"]), loss.item())
                time.sleep(STEP_S)
        data.update_cache()
    data.shutdown()
    truth.tell()


class _Spikes(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        time.sleep(COST_S)
        return torch.sin(torch.arange(768.0) * (index % 17 + 1)).relu(), index % 10


def snntorch():
    """snnTorch: time first, so that the batch is the second dimension of what the loop makes."""
    import snntorch as snn
    from snntorch import spikegen

    same_each_time()
    layer, leak, truth = torch.nn.Linear(768, 10), snn.Leaky(beta=0.9), Truth()
    optimizer = torch.optim.Adam(layer.parameters(), 5e-4, betas=(0.9, 0.999))
    for _ in range(3):
        with truth.training():
            for x, y in DataLoader(_Spikes(), batch_size=16, shuffle=True, drop_last=True):
                membrane, total = leak.init_leaky(), 0
                for part in spikegen.rate(x, num_steps=8):
                    _, membrane = leak(layer(part), membrane)
                    total = total + F.cross_entropy(membrane, y)
                optimizer.zero_grad()
                total.backward()
                optimizer.step()
                truth.trained(len(x), total.item())
                time.sleep(STEP_S)
    truth.tell()


def torchopt_functional():
    """TorchOpt's functional Adam: gradients by autograd, updates applied to a tuple of weights."""
    import torchopt

    same_each_time()
    net, truth = model(), Truth()
    adam = torchopt.FuncOptimizer(torchopt.adam(lr=1e-3))
    weights = tuple(net.parameters())
    names = [name for name, _ in net.named_parameters()]
    for _ in range(3):
        with truth.training():
            for x, y in DataLoader(Images(320), batch_size=16, shuffle=True):
                named = dict(zip(names, weights, strict=True))
                loss = F.cross_entropy(torch.func.functional_call(net, named, (x,)), y)
                weights = adam.step(loss, weights)
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
    truth.tell()


def optree_by_hand():
    """Weights in a tree: torch.func's gradient, momentum by `optree.tree_map`."""
    import optree

    same_each_time()
    net, truth = model(), Truth()
    weights = {name: value.detach() for name, value in net.named_parameters()}
    pace = optree.tree_map(torch.zeros_like, weights)

    def loss_of(weights, x, y):
        return F.cross_entropy(torch.func.functional_call(net, weights, (x,)), y)

    step = torch.func.grad_and_value(loss_of)
    for _ in range(3):
        with truth.training():
            for x, y in DataLoader(Images(320), batch_size=16, shuffle=True):
                gradients, loss = step(weights, x, y)
                pace = optree.tree_map(lambda p, g: 0.9 * p + g, pace, gradients)
                weights = optree.tree_map(lambda w, p: w - 1e-3 * p, weights, pace)
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
    truth.tell()


if __name__ == "__main__":
    start(globals())
