"""A small decoder-only language model on a synthetic corpus of word ids."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab_size: int = 5000
    block_size: int = 96
    n_layer: int = 3
    n_head: int = 4
    n_embd: int = 128
    batch_size: int = 8
    lr: float = 1e-3


def make_corpus(vocab_size, length=200_000, seed=11):
    """Zipf-distributed ids, where every second id depends on the one before it."""
    g = torch.Generator().manual_seed(seed)
    weights = 1.0 / torch.arange(1, vocab_size + 1).float()
    ids = torch.multinomial(weights, length, replacement=True, generator=g)
    ids[1::2] = (ids[0::2] * 31 + 7) % vocab_size
    return ids


def get_batch(data, cfg, g):
    starts = torch.randint(len(data) - cfg.block_size - 1, (cfg.batch_size,), generator=g)
    window = data[starts[:, None] + torch.arange(cfg.block_size + 1)]
    return window[:, :-1].contiguous(), window[:, 1:].contiguous()


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n_head = cfg.n_head
        self.qkv = nn.Linear(cfg.n_embd, 3 * cfg.n_embd)
        self.proj = nn.Linear(cfg.n_embd, cfg.n_embd)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.n_head, c // self.n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1 = nn.LayerNorm(cfg.n_embd)
        self.attn = Attention(cfg)
        self.ln2 = nn.LayerNorm(cfg.n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.n_embd, 4 * cfg.n_embd),
            nn.GELU(),
            nn.Linear(4 * cfg.n_embd, cfg.n_embd),
        )

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.wte = nn.Embedding(cfg.vocab_size, cfg.n_embd)
        self.wpe = nn.Embedding(cfg.block_size, cfg.n_embd)
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(cfg.n_layer)])
        self.ln_f = nn.LayerNorm(cfg.n_embd)
        self.head = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)
        nn.init.normal_(self.wte.weight, std=0.02)
        self.head.weight = self.wte.weight

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def lm_loss(logits, targets):
    """Mean negative log-likelihood of the next token."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)

    cfg = Config()
    data = make_corpus(cfg.vocab_size)
    model = GPT(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=(0.9, 0.95), fused=True)
    g = torch.Generator().manual_seed(5)

    recent = []
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = cfg.lr * min(1.0, (step + 1) / 10)
        x, y = get_batch(data, cfg, g)
        loss = lm_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        recent = recent[-9:] + [loss.detach()]

    print(f"train loss {torch.stack(recent).mean().item():.4f}")


if __name__ == "__main__":
    main()
