"""Data-parallel training of a deep residual MLP on two gloo ranks, gradients averaged by hand."""
import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

WORLD = 2
INPUTS = 32
BATCH = 64  # per rank


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class ResidualMLP(nn.Module):
    def __init__(self, width=64, depth=12):
        super().__init__()
        self.inp = nn.Linear(INPUTS, width)
        self.blocks = nn.ModuleList(ResidualBlock(width) for _ in range(depth))
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x).squeeze(-1)


def make_table(rows=8192, seed=8):
    """A smooth function with interactions, standardised target."""
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, INPUTS, generator=gen)
    w = torch.randn(INPUTS, 6, generator=gen) / INPUTS ** 0.5
    z = x @ w
    y = torch.sin(2 * z[:, 0]) + z[:, 1] * z[:, 2] + z[:, 3:].abs().sum(dim=1)
    y = y + 0.1 * torch.randn(rows, generator=gen)
    return x, (y - y.mean()) / y.std()


class ShardedBatches:
    """The same permutation on all ranks, each rank takes its own part."""

    def __init__(self, x, y, rank):
        self.x, self.y, self.rank = x, y, rank
        self.gen = torch.Generator().manual_seed(99)

    def __iter__(self):
        while True:
            order = torch.randperm(len(self.y), generator=self.gen)
            for chunk in order.split(BATCH * WORLD):
                if len(chunk) == BATCH * WORLD:
                    mine = chunk[self.rank::WORLD]
                    yield self.x[mine], self.y[mine]


def broadcast_parameters(model):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)


def average_gradients(model):
    """Average the gradients over all ranks."""
    world = dist.get_world_size()
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
            p.grad /= world


def train(rank, steps):
    torch.manual_seed(rank)
    model = ResidualMLP()
    broadcast_parameters(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    x, y = make_table()
    batches = iter(ShardedBatches(x, y, rank))

    for _ in range(steps):
        inputs, target = next(batches)
        loss = F.mse_loss(model(inputs), target)
        opt.zero_grad()
        loss.backward()
        average_gradients(model)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()

    mean_loss = loss.detach() / WORLD
    dist.all_reduce(mean_loss)
    if rank == 0:
        print(f"steps {steps} loss {mean_loss.item():.5f}", flush=True)


def run_rank(rank, steps, store):
    torch.set_num_threads(1)  # one core per rank
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    try:
        train(rank, steps)
    finally:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        store = os.path.join(root, "rendezvous")
        mp.spawn(run_rank, args=(args.steps, store), nprocs=WORLD)


if __name__ == "__main__":
    main()
