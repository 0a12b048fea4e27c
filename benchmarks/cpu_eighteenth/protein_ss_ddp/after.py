"""Secondary-structure tagging of protein chains, data parallel on two gloo ranks."""
import argparse
import math
import os
import random
import socket
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

AMINO = "ACDEFGHIKLMNPQRSTVWY"
STATES = "HEC"
PAD = len(AMINO)


def make_chains(n, seed):
    """Chains with helix/strand/coil segments that prefer different residues."""
    prefs = np.random.default_rng(2718).dirichlet(np.full(len(AMINO), 0.5), size=len(STATES))
    rng = np.random.default_rng(seed)
    chains = []
    for _ in range(n):
        length = int(np.clip(rng.lognormal(4.9, 0.75), 40, 700))
        states = np.empty(length, np.int64)
        i = 0
        while i < length:
            run = int(rng.integers(4, 16))
            states[i:i + run] = rng.integers(len(STATES))
            i += run
        cum = prefs.cumsum(1)[states]
        residues = np.minimum((rng.random((length, 1)) > cum).sum(1), len(AMINO) - 1)
        chains.append((residues.astype(np.int64), states))
    return chains


def collate(chains):
    width = max(len(r) for r, _ in chains)
    x = torch.full((len(chains), width), PAD)
    y = torch.full((len(chains), width), -100)
    for i, (r, s) in enumerate(chains):
        x[i, : len(r)] = torch.from_numpy(r)
        y[i, : len(s)] = torch.from_numpy(s)
    return x, y


class BucketedShard:
    """Batches of similar length (little padding); every rank gets its share of them."""

    def __init__(self, chains, batch_size, rank, world_size, seed):
        chains = sorted(chains, key=lambda c: len(c[0]))
        buckets = [chains[i:i + batch_size] for i in range(0, len(chains) - batch_size + 1, batch_size)]
        per_rank = len(buckets) // world_size
        self.buckets = buckets[rank:per_rank * world_size:world_size]
        self.seed = seed

    def __len__(self):
        return len(self.buckets)

    def epoch(self, epoch):
        order = list(range(len(self.buckets)))
        random.Random(self.seed + epoch).shuffle(order)
        for b in order:
            yield collate(self.buckets[b])


class ConvAttnBlock(nn.Module):
    def __init__(self, dim, heads, kernel=9):
        super().__init__()
        self.heads = heads
        self.n1, self.n2, self.n3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.pointwise = nn.Linear(dim, dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x, mask):
        h = self.depthwise(self.n1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.pointwise(F.gelu(h))
        b, t, d = x.shape
        q, k, v = self.qkv(self.n2(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n3(x))


class Tagger(nn.Module):
    def __init__(self, dim=96, heads=4, depth=3):
        super().__init__()
        self.embed = nn.Embedding(len(AMINO) + 1, dim, padding_idx=PAD)
        self.blocks = nn.ModuleList(ConvAttnBlock(dim, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, len(STATES))

    def forward(self, tokens):
        mask = (tokens != PAD)[:, None, None, :]
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


@torch.no_grad()
def q3(model, chains, batch_size):
    model.eval()
    right = total = 0
    for i in range(0, len(chains), batch_size):
        x, y = collate(chains[i:i + batch_size])
        keep = y != -100
        right += (model(x).argmax(-1)[keep] == y[keep]).sum().item()
        total += keep.sum().item()
    model.train()
    return torch.tensor([right, total], dtype=torch.float64)


def worker(rank, world_size, port, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(args.seed)

    chains = make_chains(args.chains, args.seed)
    held_out = make_chains(32, args.seed + 1)
    shard = BucketedShard(chains, args.batch_size, rank, world_size, args.seed)
    model = DDP(Tagger())
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    total = len(shard) * args.epochs
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 0.5 * (1 + math.cos(math.pi * s / total)))
    if rank == 0:
        print(f"{len(chains)} chains, {len(shard)} batches per rank, {total} steps")

    step, begin = 0, time.time()
    meter = torch.zeros(2, dtype=torch.float64)
    for epoch in range(args.epochs):
        for x, y in shard.epoch(epoch):
            logits = model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            meter += torch.tensor([loss.item(), 1.0], dtype=torch.float64)
            step += 1
            if step % args.log_every == 0:
                dist.all_reduce(meter)
                if rank == 0:
                    print(f"step {step:3d} loss {meter[0] / meter[1]:.4f} {(time.time() - begin) / args.log_every * 1e3:.0f} ms/step")
                meter.zero_()
                begin = time.time()
    counts = q3(model.module, held_out[rank::world_size], 8)
    dist.all_reduce(counts)
    if rank == 0:
        print(f"held-out Q3 {counts[0] / counts[1]:.4f}")
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--world-size", type=int, default=2)
    ap.add_argument("--chains", type=int, default=800)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--epochs", type=int, default=1)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--log-every", type=int, default=10)
    ap.add_argument("--seed", type=int, default=4)
    args = ap.parse_args()
    mp.spawn(worker, args=(args.world_size, free_port(), args), nprocs=args.world_size)


if __name__ == "__main__":
    main()
