"""Synchronous data-parallel SGD on two processes: traffic-speed forecasting with a deep TCN."""
import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

SENSORS, HISTORY, HORIZON = 12, 48, 6


def make_speeds(minutes=8000, seed=13):
    """Speeds of neighbouring loop detectors with rush hours and drifting noise."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(minutes, dtype=torch.float32)
    shift = torch.linspace(0, 1.5, SENSORS)[:, None]
    rush = torch.exp(-((torch.sin(2 * torch.pi * t / 480 + shift) - 0.9) / 0.3) ** 2)
    noise = torch.randn(SENSORS, minutes, generator=g)
    return 0.6 - rush + 0.1 * noise


class Partition:
    """Every rank draws windows from its own contiguous share of the record."""

    def __init__(self, series, rank, world, batch_size):
        share = series.size(1) // world
        part = series[:, rank * share:(rank + 1) * share]
        self.windows = part.unfold(1, HISTORY + HORIZON, 1).transpose(0, 1)
        self.batch_size = batch_size
        self.g = torch.Generator().manual_seed(100 + rank)

    def next(self):
        i = torch.randint(self.windows.size(0), (self.batch_size,), generator=self.g)
        chunk = self.windows[i]
        return chunk[..., :HISTORY], chunk[..., HISTORY:]


class TemporalBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.norm1 = nn.GroupNorm(1, ch)
        self.conv1 = nn.Conv1d(ch, ch, 3, dilation=dilation)
        self.norm2 = nn.GroupNorm(1, ch)
        self.conv2 = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        y = self.conv1(F.pad(F.relu(self.norm1(x)), (self.pad, 0)))
        return x + self.conv2(F.relu(self.norm2(y)))


class TCN(nn.Module):
    def __init__(self, ch=32, stacks=4):
        super().__init__()
        self.inp = nn.Conv1d(SENSORS, ch, 1)
        self.blocks = nn.Sequential(*[TemporalBlock(ch, d) for _ in range(stacks) for d in (1, 2, 4, 8)])
        self.out = nn.Linear(ch, SENSORS * HORIZON)

    def forward(self, x):
        last = self.blocks(self.inp(x))[..., -1]
        return self.out(last).view(-1, SENSORS, HORIZON)


def average_gradients(model):
    """Gradient averaging."""
    size = float(dist.get_world_size())
    grads = [param.grad for param in model.parameters()]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    flat /= size
    for grad, part in zip(grads, flat.split([grad.numel() for grad in grads])):
        grad.copy_(part.view_as(grad))


def run(rank, world, args, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    torch.set_num_threads(1)  # one core per process
    torch.manual_seed(1234)   # same initial weights everywhere
    model = TCN()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    data = Partition(make_speeds(), rank, world, args.batch_size)

    total = torch.zeros(1)
    for _ in range(args.steps):
        x, y = data.next()
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        total += loss.detach()

    dist.all_reduce(total)
    if rank == 0:
        print(f"steps {args.steps} mean mse {total.item() / (world * max(args.steps, 1)):.4f}")
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=8, help="per rank")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--world-size", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        store = os.path.join(tmp, "rendezvous")
        mp.spawn(run, args=(args.world_size, args, store), nprocs=args.world_size, join=True)


if __name__ == "__main__":
    main()
