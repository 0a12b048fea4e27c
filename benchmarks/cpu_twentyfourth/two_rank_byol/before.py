"""Self-supervised pretraining of a sensor encoder on two processes (student and slow teacher)."""
import argparse
import copy
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class SensorWindows:
    """Windows of a multi-channel signal; every rank reads its own part."""

    def __init__(self, rank, channels=16, length=32, pool=512):
        gen = torch.Generator().manual_seed(100 + rank)
        t = torch.arange(length) / length
        freq = 1 + 5 * torch.rand(pool, channels, 1, generator=gen)
        phase = 6.28 * torch.rand(pool, channels, 1, generator=gen)
        self.windows = torch.sin(6.28 * freq * t + phase)
        self.gen = gen

    def augment(self, x):
        gain = 1 + 0.2 * torch.randn(x.size(0), x.size(1), 1, generator=self.gen)
        noise = 0.1 * torch.randn(x.shape, generator=self.gen)
        shift = int(torch.randint(0, 8, (1,), generator=self.gen))
        return (torch.roll(x, shift, dims=-1) * gain + noise).flatten(1)

    def next(self, batch_size):
        i = torch.randint(len(self.windows), (batch_size,), generator=self.gen)
        x = self.windows[i]
        return self.augment(x), self.augment(x)


def mlp(dims):
    layers = []
    for a, b in zip(dims[:-2], dims[1:-1]):
        layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.GELU()]
    layers.append(nn.Linear(dims[-2], dims[-1]))
    return nn.Sequential(*layers)


class Encoder(nn.Module):
    def __init__(self, dim_in=512, hidden=512, dim_out=128):
        super().__init__()
        self.backbone = mlp([dim_in, hidden, hidden, hidden])
        self.projector = mlp([hidden, hidden, dim_out])

    def forward(self, x):
        return self.projector(self.backbone(x))


class Student(nn.Module):
    def __init__(self, dim_out=128):
        super().__init__()
        self.encoder = Encoder(dim_out=dim_out)
        self.predictor = mlp([dim_out, 256, dim_out])

    def forward(self, x):
        return self.predictor(self.encoder(x))


class Teacher:
    """Exponential moving average of the student's encoder, the same on every rank."""

    def __init__(self, encoder, decay=0.99):
        self.decay = decay
        self.model = copy.deepcopy(encoder).requires_grad_(False)
        self.sync()

    @torch.no_grad()
    def sync(self):
        world = dist.get_world_size()
        for p in self.model.parameters():
            dist.all_reduce(p)
            p.div_(world)

    @torch.no_grad()
    def update(self, encoder):
        for slow, fast in zip(self.model.parameters(), encoder.parameters()):
            slow.lerp_(fast, 1 - self.decay)
        self.sync()

    @torch.no_grad()
    def __call__(self, x):
        return self.model(x)


def cosine_loss(prediction, target):
    return 2 - 2 * F.cosine_similarity(prediction, target, dim=1).mean()


def worker(rank, world, init_file, args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{init_file}", rank=rank, world_size=world)
    torch.manual_seed(0)
    student = Student()
    teacher = Teacher(student.encoder)
    model = DDP(student)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    data = SensorWindows(rank)

    average = torch.zeros(())
    for step in range(args.steps):
        one, two = data.next(args.batch_size)
        both = torch.cat([one, two])
        target = teacher(both)
        prediction = model(both)
        swapped = torch.cat([target[args.batch_size:], target[:args.batch_size]])
        loss = cosine_loss(prediction, swapped)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        teacher.update(student.encoder)
        average += (loss.detach() - average) / (step + 1)

    dist.all_reduce(average)
    if rank == 0:
        print(f"{average.item() / world:.6f}")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(worker, args=(2, os.path.join(folder, "init"), args), nprocs=2,
                           start_method="fork")


if __name__ == "__main__":
    main()
