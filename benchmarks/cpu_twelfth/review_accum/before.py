"""Train a sentiment encoder on product reviews with gradient accumulation."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, VOCAB, MAX_LEN, CLASSES = 0, 4000, 48, 5


def make_reviews(n, seed=21):
    """Token ids with a star rating; each rating favours its own part of the vocabulary."""
    g = torch.Generator().manual_seed(seed)
    stars = torch.randint(CLASSES, (n,), generator=g)
    common = torch.randint(1, VOCAB, (n, MAX_LEN), generator=g)
    tone = 1 + stars[:, None] * 120 + torch.randint(120, (n, MAX_LEN), generator=g)
    ids = torch.where(torch.rand(n, MAX_LEN, generator=g) < 0.15, tone, common)
    lengths = torch.randint(MAX_LEN // 2, MAX_LEN + 1, (n,), generator=g)
    ids[torch.arange(MAX_LEN) >= lengths[:, None]] = PAD
    return ids, stars


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.norm2(x))


class ReviewEncoder(nn.Module):
    def __init__(self, dim=128, heads=4, layers=3):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Parameter(0.02 * torch.randn(MAX_LEN, dim))
        self.layers = nn.ModuleList(EncoderLayer(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.cls = nn.Linear(dim, CLASSES)

    def forward(self, ids):
        keep = ids != PAD
        x = self.tok(ids) + self.pos
        for layer in self.layers:
            x = layer(x, keep[:, None, None, :])
        weight = keep.unsqueeze(-1).float()
        return self.cls((self.norm(x) * weight).sum(1) / weight.sum(1))


@torch.no_grad()
def count_correct(model, ids, labels):
    return (model(ids).argmax(dim=1) == labels).sum().item()


def lr_at(step, base, warmup=10, total=400):
    if step < warmup:
        return base * (step + 1) / warmup
    return base * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / total)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps")
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--clip", type=float, default=1.0)
    args = parser.parse_args()

    torch.manual_seed(0)
    ids, stars = make_reviews(6000)
    model = ReviewEncoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01, fused=True)
    g = torch.Generator().manual_seed(1)

    smooth, correct, seen = None, 0, 0
    model.train()
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step, args.lr)
        step_loss = 0.0
        for _ in range(args.accumulate):
            pick = torch.randint(len(ids), (args.micro_batch,), generator=g)
            x, y = ids[pick], stars[pick]
            loss = F.cross_entropy(model(x), y) / args.accumulate
            loss.backward()
            step_loss += loss.item()
            correct += count_correct(model, x, y)
            seen += len(y)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        optimizer.zero_grad()
        smooth = step_loss if smooth is None else 0.9 * smooth + 0.1 * step_loss
    if smooth is not None:
        print(f"step {args.steps}: loss {smooth:.3f}, train accuracy {correct / seen:.3f}")


if __name__ == "__main__":
    main()
