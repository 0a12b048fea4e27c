"""Trains a transformer to restore punctuation in unpunctuated text, with gradient accumulation."""
import argparse
import random
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

LABELS = ["none", "comma", "stop", "question"]
VOCAB = 500
WH_WORDS, CONJUNCTIONS = range(1, 9), range(9, 19)


def make_corpus(n, length, seed=0):
    """Streams of word ids with the mark that follows each word; clauses open with telling words."""
    rng = random.Random(seed)
    words, marks = [], []
    for _ in range(n):
        w, m = [], []
        while len(w) < length:
            question = rng.random() < 0.25
            clauses = rng.randint(1, 3)
            for c in range(clauses):
                body = [rng.randrange(19, VOCAB) for _ in range(rng.randint(3, 8))]
                if c == 0 and question:
                    body[0] = rng.choice(WH_WORDS)
                elif c > 0:
                    body[0] = rng.choice(CONJUNCTIONS)
                last = c == clauses - 1
                w += body
                m += [0] * (len(body) - 1) + [(3 if question else 2) if last else 1]
        words.append(w[:length])
        marks.append(m[:length])
    return TensorDataset(torch.tensor(words), torch.tensor(marks))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class PunctuationTagger(nn.Module):
    def __init__(self, max_len, dim=128, heads=4, depth=4):
        super().__init__()
        self.word = nn.Embedding(VOCAB, dim)
        self.position = nn.Parameter(0.02 * torch.randn(max_len, dim))
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(LABELS))

    def forward(self, ids):
        x = self.word(ids) + self.position[:ids.size(1)]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def cycle(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40, help="optimizer steps")
    parser.add_argument("--micro-batch-size", type=int, default=2)
    parser.add_argument("--grad-accum-steps", type=int, default=16)
    parser.add_argument("--seq-len", type=int, default=48)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(5)
    torch.set_num_threads(1)

    loader = DataLoader(make_corpus(3000, args.seq_len), batch_size=args.micro_batch_size, shuffle=True, drop_last=True,
                        generator=torch.Generator().manual_seed(5))
    batches = cycle(loader)
    model = PunctuationTagger(args.seq_len)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01, fused=True)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=10)
    class_weight = torch.tensor([0.5, 2.0, 2.0, 3.0])

    times, history = [], []
    model.train()
    for step in range(args.steps):
        tick = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        step_loss = 0.0
        for _ in range(args.grad_accum_steps):
            ids, marks = next(batches)
            logits = model(ids)
            per_token = F.cross_entropy(logits.flatten(0, 1), marks.flatten(), weight=class_weight, reduction="none")
            loss = per_token.mean() / args.grad_accum_steps
            loss.backward()
            step_loss += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        history.append(step_loss)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {step_loss.item():.4f}")
        times.append(time.perf_counter() - tick)

    print(f"loss {torch.stack(history[-10:]).mean().item():.4f}")
    print(f"step {1000 * statistics.median(times[5:]):.2f} ms")


if __name__ == "__main__":
    main()
