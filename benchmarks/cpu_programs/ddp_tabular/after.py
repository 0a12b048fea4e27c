"""Two-process data-parallel training of a tabular MLP over gloo."""

import argparse
import contextlib
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class TabularDataset(Dataset):
    def __init__(self, rows=16384, columns=128, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(rows, columns, generator=g)
        w = torch.randn(columns, generator=g)
        self.y = torch.tanh(self.x @ w / columns**0.5) + 0.05 * torch.randn(rows, generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class ResidualMLP(nn.Module):
    def __init__(self, columns=128, hidden=1024, blocks=3):
        super().__init__()
        self.inp = nn.Linear(columns, hidden)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.GELU(), nn.Dropout(0.1))
            for _ in range(blocks)
        )
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = x + block(x)
        return self.out(x).squeeze(-1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def worker(rank, world_size, port, args):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(0)

    dataset = TabularDataset()
    sampler = DistributedSampler(dataset, world_size, rank)
    loader = DataLoader(dataset, batch_size=args.micro_batch, sampler=sampler, drop_last=True)
    model = DDP(ResidualMLP())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    times, step, epoch = [], 0, 0
    while step < args.steps:
        sampler.set_epoch(epoch)
        epoch += 1
        start = time.perf_counter()
        for i, (x, y) in enumerate(loader):
            last = (i + 1) % args.accumulate == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = F.mse_loss(model(x), y) / args.accumulate
                loss.backward()
            if not last:
                continue
            optimizer.step()
            optimizer.zero_grad()
            now = time.perf_counter()
            times.append((now - start) * 1e3)
            start = now
            step += 1
            if rank == 0 and step % 20 == 0:
                print(f"step {step} loss {loss.item() * args.accumulate:.4f}", flush=True)
            if step >= args.steps:
                break

    dist.barrier()
    if rank == 0:
        print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--micro-batch", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=4)
    args = parser.parse_args()
    world_size = 2
    mp.spawn(worker, args=(world_size, free_port(), args), nprocs=world_size, join=True)


if __name__ == "__main__":
    main()
