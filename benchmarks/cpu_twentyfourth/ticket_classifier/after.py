"""Classify support tickets with a small transformer encoder and gradient accumulation."""
import argparse
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PAD, CLS, UNK = 0, 1, 2
TOPICS = ["billing", "login", "shipping", "refund", "outage", "other"]


class Vocabulary:
    def __init__(self, words):
        self.index = {w: i + 3 for i, w in enumerate(words)}

    def __len__(self):
        return len(self.index) + 3

    def encode(self, text):
        return [CLS] + [self.index.get(w, UNK) for w in text.split()]


def make_tickets(n, words, rng):
    tickets = []
    for _ in range(n):
        topic = rng.randrange(len(TOPICS))
        length = max(5, min(125, int(rng.lognormvariate(3.3, 0.55))))
        text = []
        for _ in range(length):
            if rng.random() < 0.25:
                text.append(words[topic * 40 + rng.randrange(40)])
            else:
                text.append(words[int(len(words) * rng.random() ** 2)])
        tickets.append((" ".join(text), topic))
    return tickets


class TicketDataset(Dataset):
    def __init__(self, tickets, vocab, max_length):
        self.rows = [(vocab.encode(text)[:max_length], topic) for text, topic in tickets]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Collator:
    """Pads token lists into one batch and builds the attention mask."""

    def __init__(self, max_length):
        self.max_length = max_length

    def __call__(self, rows):
        width = max(len(tokens) for tokens, _ in rows)
        ids = torch.full((len(rows), width), PAD, dtype=torch.long)
        mask = torch.zeros(len(rows), width, dtype=torch.bool)
        for i, (tokens, _) in enumerate(rows):
            ids[i, :len(tokens)] = torch.tensor(tokens)
            mask[i, :len(tokens)] = True
        return {"ids": ids, "mask": mask, "topic": torch.tensor([t for _, t in rows])}


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ln2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class TicketEncoder(nn.Module):
    def __init__(self, vocab_size, num_topics, dim=64, heads=4, layers=2, max_length=128):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, dim, padding_idx=PAD)
        self.pos = nn.Embedding(max_length, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_topics)

    def forward(self, ids, mask):
        x = self.tok(ids) + self.pos.weight[:ids.size(1)]
        for block in self.blocks:
            x = block(x, mask)
        x = self.ln(x)
        weight = mask.unsqueeze(-1).to(x.dtype)
        pooled = (x * weight).sum(1) / weight.sum(1)
        return self.head(pooled)


def cycle(loader):
    while True:
        yield from loader


def lr_at(step, total, warmup=10):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = random.Random(0)
    words = [f"w{i}" for i in range(1500)]
    vocab = Vocabulary(words)
    data = TicketDataset(make_tickets(1600, words, rng), vocab, args.max_length)
    loader = DataLoader(data, batch_size=args.micro_batch, shuffle=True, drop_last=True,
                        collate_fn=Collator(args.max_length),
                        generator=torch.Generator().manual_seed(1))

    model = TicketEncoder(len(vocab), len(TOPICS), max_length=args.max_length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: lr_at(s, args.steps))
    batches = cycle(loader)

    running = 0.0
    for step in range(args.steps):
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for _ in range(args.accumulate):
            batch = next(batches)
            logits = model(batch["ids"], batch["mask"])
            loss = F.cross_entropy(logits, batch["topic"]) / args.accumulate
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        running = total if step == 0 else 0.9 * running + 0.1 * total
    print(f"{running:.6f}")


if __name__ == "__main__":
    main()
