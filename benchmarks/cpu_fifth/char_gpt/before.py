"""Character-level GPT trained on a synthetic play script."""
import argparse
import math
import random
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SPEAKERS = ["DUKE", "ROSA", "CLOWN", "NURSE", "CAPTAIN"]
SUBJECTS = ["the moon", "my lord", "thy sister", "this cold sea", "the old king", "our ship"]
VERBS = ["loves", "hath forsworn", "shall remember", "doth fear", "will not forgive", "sings to"]
TAILS = ["and so farewell.", "as I do live.", "till morning come.", "yet who can tell?", "alas the day!"]


def write_play(lines, seed=0):
    rng = random.Random(seed)
    out = []
    for _ in range(lines):
        out.append(f"{rng.choice(SPEAKERS)}:\n{rng.choice(SUBJECTS).capitalize()} {rng.choice(VERBS)} "
                   f"{rng.choice(SUBJECTS)}, {rng.choice(TAILS)}\n\n")
    return "".join(out)


class CharDataset(Dataset):
    def __init__(self, text, block_size):
        self.chars = sorted(set(text))
        stoi = {c: i for i, c in enumerate(self.chars)}
        self.data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
        self.block_size = block_size

    @property
    def vocab_size(self):
        return len(self.chars)

    def __len__(self):
        return len(self.data) - self.block_size - 1

    def __getitem__(self, i):
        chunk = self.data[i:i + self.block_size + 1]
        return chunk[:-1], chunk[1:]


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        assert n_embd % n_head == 0
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        mask = torch.tril(torch.ones(block_size, block_size, dtype=torch.bool))
        self.register_buffer("mask", mask.view(1, 1, block_size, block_size), persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(~self.mask[:, :, :T, :T], float("-inf"))
        att = F.softmax(att, dim=-1)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class Block(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, block_size)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size, block_size, n_layer=3, n_head=4, n_embd=128):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, n_embd)
        self.pos = nn.Embedding(block_size, n_embd)
        self.blocks = nn.ModuleList([Block(n_embd, n_head, block_size) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.lm_head.weight = self.tok.weight
        self.apply(self._init_weights)
        self.register_buffer("positions", torch.arange(block_size), persistent=False)

    def _init_weights(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)
        if isinstance(m, nn.Linear) and m.bias is not None:
            nn.init.zeros_(m.bias)

    def forward(self, idx, targets):
        x = self.tok(idx) + self.pos(self.positions[:idx.size(1)])
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def configure_optimizer(model, lr, weight_decay):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--block-size", type=int, default=512)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=10)
    args = parser.parse_args()

    torch.manual_seed(1337)
    torch.set_num_threads(1)

    dataset = CharDataset(write_play(3000), args.block_size)
    sampler = torch.utils.data.RandomSampler(dataset, num_samples=args.steps * args.batch_size,
                                             generator=torch.Generator().manual_seed(7))
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    model = GPT(dataset.vocab_size, args.block_size)
    optimizer = configure_optimizer(model, args.lr, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / args.warmup))

    times, losses = [], []
    model.train()
    tick = time.perf_counter()
    for step, (x, y) in enumerate(loader):
        loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach())
        if step % 20 == 0:
            print(f"iter {step}: loss {loss.item():.4f}")
        now = time.perf_counter()
        times.append(now - tick)
        tick = now

    print(f"loss {torch.stack(losses[-10:]).mean().item():.4f}")
    print(f"step {1000 * statistics.median(times[5:]):.2f} ms")


if __name__ == "__main__":
    main()
