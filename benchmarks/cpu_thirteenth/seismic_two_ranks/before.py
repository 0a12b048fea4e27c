"""Seismic event detection on two gloo ranks with hand-made gradient averaging."""
import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

WORLD = 2
SAMPLES = 512


def make_traces(n=768, seed=23):
    """Three-component noise; half of the traces hold a decaying arrival."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(SAMPLES).float()
    event = torch.rand(n, generator=g) < 0.5
    onset = torch.randint(60, SAMPLES - 120, (n, 1), generator=g)
    since = (t - onset).clamp(min=0)
    wave = torch.sin(since * 0.35) * torch.exp(-since / 60)
    strength = 0.6 + torch.rand(n, 3, 1, generator=g)
    noise = torch.randn(n, 3, SAMPLES, generator=g) * 0.7
    return noise + event[:, None, None] * strength * wave[:, None], event.float()


class ResidualUnit(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)
        self.norm1 = nn.GroupNorm(4, channels)
        self.conv2 = nn.Conv1d(channels, channels, 1)
        self.norm2 = nn.GroupNorm(4, channels)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(y)))


class Detector(nn.Module):
    def __init__(self, channels=16, units=8):
        super().__init__()
        self.stem = nn.Conv1d(3, channels, 7, stride=4, padding=3)
        self.units = nn.Sequential(*[ResidualUnit(channels, 2 ** (i % 4)) for i in range(units)])
        self.head = nn.Linear(channels, 1)

    def forward(self, x):
        return self.head(self.units(F.relu(self.stem(x))).amax(dim=2)).squeeze(1)


def average_gradients(model):
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= WORLD


def worker(rank, init_file, args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{init_file}", rank=rank, world_size=WORLD)
    torch.manual_seed(0)

    traces, events = make_traces()
    traces, events = traces[rank::WORLD], events[rank::WORLD]
    model = Detector()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(100 + rank)

    losses = []
    for step in range(args.steps):
        pick = torch.randint(len(events), (args.batch_size,), generator=g)
        loss = F.binary_cross_entropy_with_logits(model(traces[pick]), events[pick])
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        losses.append(loss.detach())

    mean_loss = torch.stack(losses[-10:]).mean()
    dist.all_reduce(mean_loss)
    if rank == 0:
        print(f"loss {mean_loss.item() / WORLD:.4f}", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=24, help="per rank")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, args=(os.path.join(folder, "rendezvous"), args), nprocs=WORLD)


if __name__ == "__main__":
    main()
