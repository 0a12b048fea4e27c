"""Data parallel training of a rating model on two gloo ranks, with gradient accumulation."""
import argparse
import contextlib
import os
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

WORLD_SIZE = 2
N_USERS, N_ITEMS, N_FEATURES = 400, 600, 48


def make_ratings(n, seed):
    rng = np.random.default_rng(seed)
    users = rng.integers(0, N_USERS, n)
    items = rng.integers(0, N_ITEMS, n)
    features = rng.normal(size=(n, N_FEATURES)).astype(np.float32)
    taste = rng.normal(size=(N_USERS, 8))
    style = rng.normal(size=(N_ITEMS, 8))
    score = (taste[users] * style[items]).sum(1) / 3 + features[:, :4].sum(1) / 4
    score = (score + rng.normal(0, 0.2, n)).astype(np.float32)
    return TensorDataset(*(torch.from_numpy(a) for a in (users, items, features, score)))


class RatingModel(nn.Module):
    def __init__(self, dim=64, hidden=512):
        super().__init__()
        self.users = nn.Embedding(N_USERS, dim)
        self.items = nn.Embedding(N_ITEMS, dim)
        self.mlp = nn.Sequential(
            nn.Linear(2 * dim + N_FEATURES, hidden), nn.LayerNorm(hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.LayerNorm(hidden), nn.ReLU(),
            nn.Linear(hidden, hidden // 2), nn.ReLU(),
            nn.Linear(hidden // 2, 1),
        )

    def forward(self, users, items, features):
        x = torch.cat([self.users(users), self.items(items), features], dim=1)
        return self.mlp(x).squeeze(1)


def setup(rank, init_file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{init_file}", rank=rank,
                            world_size=WORLD_SIZE)
    torch.manual_seed(42)


def reduce_mean(value):
    tensor = torch.tensor(value)
    dist.all_reduce(tensor)
    return tensor.item() / WORLD_SIZE


def train(rank, args, init_file):
    setup(rank, init_file)
    dataset = make_ratings(8192, seed=42)
    sampler = DistributedSampler(dataset, WORLD_SIZE, rank, seed=42)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    model = DDP(RatingModel())
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    step, epoch = 0, 0
    history = []
    start = time.time()
    while step < args.steps:
        sampler.set_epoch(epoch)
        running = 0.0
        for i, (users, items, features, score) in enumerate(loader):
            last = (i + 1) % args.accumulate == 0
            with contextlib.nullcontext() if last else model.no_sync():
                pred = model(users, items, features)
                loss = F.mse_loss(pred, score) / args.accumulate
                loss.backward()
            running += loss.item()
            if last:
                optimizer.step()
                optimizer.zero_grad()
                history.append(running)
                running = 0.0
                step += 1
                if step >= args.steps:
                    break
        epoch += 1
        mean = reduce_mean(float(np.mean(history[-10:])))
        if rank == 0:
            print(f"epoch {epoch} step {step} mse {mean:.4f} ({time.time() - start:.1f}s)",
                  flush=True)
    final = reduce_mean(float(np.mean(history[-20:])))
    if rank == 0:
        print(f"final mse {final:.2f}", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.002)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        init_file = os.path.join(folder, "init")
        mp.spawn(train, args=(args, init_file), nprocs=WORLD_SIZE)


if __name__ == "__main__":
    main()
