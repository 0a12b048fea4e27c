"""Character CTC recogniser trained by two data-parallel processes (gloo); starts its own ranks."""
import argparse
import os
import random
import socket
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Sampler

N_CHARS = 29
N_MELS = 40


class Utterances(Dataset):
    """Feature frames from character prototypes; 1 to 8 s of speech, long-tailed as in read books."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        proto = np.random.default_rng(0).normal(size=(N_CHARS, N_MELS)).astype(np.float32)
        self.items, self.frames = [], []
        for _ in range(n):
            chars = int(np.clip(rng.gamma(2.2, 14), 10, 80))
            text = rng.integers(1, N_CHARS, chars)
            stretch = rng.integers(8, 13, chars)
            feats = np.repeat(proto[text], stretch, axis=0)
            feats = feats + 0.5 * rng.standard_normal(feats.shape).astype(np.float32)
            self.items.append((torch.from_numpy(feats), torch.from_numpy(text)))
            self.frames.append(len(feats))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    feats, texts = zip(*items)
    x = nn.utils.rnn.pad_sequence(feats, batch_first=True)
    return x, torch.tensor([len(f) for f in feats]), torch.cat(texts), torch.tensor([len(t) for t in texts])


class BucketSampler(Sampler):
    """Batches of utterances of similar length, in random order; every rank gets its share of the batches."""

    def __init__(self, lengths, batch_size, rank, world, seed=0):
        self.lengths, self.batch_size = lengths, batch_size
        self.rank, self.world, self.seed, self.epoch = rank, world, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        rng = random.Random(self.seed + self.epoch)
        order = sorted(range(len(self.lengths)), key=lambda i: self.lengths[i] + rng.random())
        n = self.batch_size * self.world
        groups = [order[i: i + n] for i in range(0, len(order) - n + 1, n)]
        rng.shuffle(groups)
        return iter([group[self.rank:: self.world] for group in groups])

    def __len__(self):
        return len(self.lengths) // self.batch_size // self.world


class Recogniser(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(N_MELS, 96, 5, 2, 2), nn.GELU(), nn.Conv1d(96, 96, 5, 1, 2), nn.GELU())
        self.rnn = nn.GRU(96, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(2 * hidden)
        self.out = nn.Linear(2 * hidden, N_CHARS)

    def forward(self, x):
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        x, _ = self.rnn(x)
        return self.out(self.norm(x)).log_softmax(-1)


def greedy_error(log_probs, lengths, texts, text_lengths):
    """Rough error: difference of decoded and true length, cheap enough for a progress line."""
    best = log_probs.argmax(-1)
    change = torch.ones_like(best, dtype=torch.bool)
    change[:, 1:] = best[:, 1:] != best[:, :-1]
    inside = torch.arange(best.size(1))[None] < lengths[:, None]
    n = (change & (best > 0) & inside).sum(1)
    return ((n - text_lengths).abs() / text_lengths).mean()


def worker(rank, world, port, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.set_num_threads(1)
    torch.manual_seed(0)

    data = Utterances(args.utterances, seed=1)
    sampler = BucketSampler(data.frames, args.batch, rank, world, seed=5)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=collate)
    model = DDP(Recogniser(), gradient_as_bucket_view=True)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    ctc = nn.CTCLoss(zero_infinity=True)

    step = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        tic, total = time.time(), torch.zeros(2)
        for x, frames, texts, text_lengths in loader:
            log_probs = model(x)
            out_lengths = (frames + 1) // 2
            loss = ctc(log_probs.transpose(0, 1), texts, out_lengths, text_lengths)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += torch.tensor([loss.item(), 1.0])
            step += 1
        dist.all_reduce(total)
        err = greedy_error(log_probs.detach(), out_lengths, texts, text_lengths)
        if rank == 0:
            ms = (time.time() - tic) / len(sampler) * 1e3
            print(f"epoch {epoch} step {step} ctc {total[0] / total[1]:.3f} length error {err:.2f} {ms:.0f} ms/step",
                  flush=True)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--world", type=int, default=2)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--utterances", type=int, default=256)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    mp.spawn(worker, args=(args.world, free_port(), args), nprocs=args.world, join=True)


if __name__ == "__main__":
    main()
