"""Click-through prediction with field embeddings and a deep tower, data-parallel over two ranks (gloo)."""
import argparse
import contextlib
import os
import socket
import statistics
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

FIELDS = [400, 300, 60, 24, 7, 120, 500, 30]


def make_clicks(n, seed=0):
    """Impressions with Zipf-like categorical fields; clicks follow a hidden pairwise model."""
    rng = np.random.default_rng(seed)
    columns = [np.minimum(rng.zipf(1.4, n) - 1, size - 1) for size in FIELDS]
    affinity = [rng.normal(0, 1, (size, 4)) for size in FIELDS]
    vectors = np.stack([table[col] for table, col in zip(affinity, columns)], 1)
    total = vectors.sum(1)
    score = 0.5 * ((total ** 2).sum(1) - (vectors ** 2).sum((1, 2)))
    prob = 1 / (1 + np.exp(-(score - np.median(score)) / score.std() * 2))
    clicks = (rng.random(n) < prob).astype(np.float32)
    return TensorDataset(torch.from_numpy(np.stack(columns, 1)), torch.from_numpy(clicks))


class Ranker(nn.Module):
    def __init__(self, dim=32, hidden=1280, depth=3):
        super().__init__()
        offsets = torch.tensor([0] + FIELDS[:-1]).cumsum(0)
        self.register_buffer("offsets", offsets, persistent=False)
        self.embed = nn.Embedding(sum(FIELDS), dim)
        nn.init.normal_(self.embed.weight, std=0.3)
        layers, width = [], dim * len(FIELDS)
        for _ in range(depth):
            layers += [nn.Linear(width, hidden), nn.ReLU(inplace=True)]
            width = hidden
        self.tower = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, fields):
        x = self.embed(fields + self.offsets).flatten(1)
        return self.tower(x).squeeze(1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def worker(rank, world_size, port, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.set_num_threads(1)
    torch.manual_seed(0)

    dataset = make_clicks(60000)
    sampler = DistributedSampler(dataset, world_size, rank, shuffle=True, seed=1, drop_last=True)
    # whole batches are indexed at once
    loader = DataLoader(dataset, batch_size=None, sampler=BatchSampler(sampler, args.batch_size, drop_last=True))
    model = DDP(Ranker(), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)

    step, micro, epoch = 0, 0, 0
    times, losses, running = [], [], torch.zeros(())
    model.train()
    while step < args.steps:
        sampler.set_epoch(epoch)
        tick = time.perf_counter()
        for fields, clicks in loader:
            micro += 1
            last = micro % args.accumulate == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = F.binary_cross_entropy_with_logits(model(fields), clicks) / args.accumulate
                loss.backward()
            running += loss.detach()
            if not last:
                continue
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(running)
            running = torch.zeros(())
            step += 1
            now = time.perf_counter()
            times.append(now - tick)
            tick = now
            if step >= args.steps:
                break
        epoch += 1

    mean_loss = torch.stack(losses[-10:]).mean()
    dist.all_reduce(mean_loss)
    if rank == 0:
        print(f"loss {mean_loss.item() / world_size:.4f}")
        print(f"step {1000 * statistics.median(times[5:]):.2f} ms", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40, help="optimizer steps")
    parser.add_argument("--batch-size", type=int, default=16, help="per rank and micro-batch")
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    mp.spawn(worker, args=(2, free_port(), args), nprocs=2)


if __name__ == "__main__":
    main()
