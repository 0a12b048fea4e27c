#!/usr/bin/env python
# Masked-language-model pre-training of a small encoder on k-mer tokens of protein-like sequences.
import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

PAD, CLS, SEP, MASK = 0, 1, 2, 3
N_SPECIAL = 4
AMINO = 20


@dataclass
class Config:
    vocab_size: int = AMINO ** 3 + N_SPECIAL
    n_layer: int = 3
    n_head: int = 4
    d_model: int = 192
    d_ff: int = 768
    max_len: int = 128
    dropout: float = 0.1
    tie_weights: bool = True


class KmerCorpus:
    """Sequences drawn from a Markov chain over amino acids, cut into overlapping 3-mers."""

    def __init__(self, cfg, n_seq, seed):
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(AMINO, AMINO)) * 1.5
        trans = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        cdf = trans.cumsum(1)
        length = cfg.max_len
        seq = np.empty((n_seq, length), dtype=np.int64)
        state = rng.integers(0, AMINO, n_seq)
        for t in range(length):
            seq[:, t] = state
            u = rng.random((n_seq, 1))
            state = np.minimum((u > cdf[state]).sum(1), AMINO - 1)
        kmers = seq[:, :-2] * AMINO * AMINO + seq[:, 1:-1] * AMINO + seq[:, 2:] + N_SPECIAL
        cls = np.full((n_seq, 1), CLS)
        sep = np.full((n_seq, 1), SEP)
        self.tokens = torch.from_numpy(np.concatenate([cls, kmers, sep], axis=1))
        self.gen = torch.Generator().manual_seed(seed)
        self.vocab_size = cfg.vocab_size

    def batch(self, size):
        idx = torch.randint(len(self.tokens), (size,), generator=self.gen)
        return self.mask(self.tokens[idx])

    def mask(self, tokens, prob=0.15):
        inputs, labels = tokens.clone(), tokens.clone()
        p = torch.full(labels.shape, prob)
        p[tokens < N_SPECIAL] = 0.0
        picked = torch.bernoulli(p, generator=self.gen).bool()
        labels[~picked] = -100
        roll = torch.rand(labels.shape, generator=self.gen)
        inputs[picked & (roll < 0.8)] = MASK
        swap = picked & (roll >= 0.8) & (roll < 0.9)
        inputs[swap] = torch.randint(N_SPECIAL, self.vocab_size, (int(swap.sum()),), generator=self.gen)
        return inputs, labels


class SelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n_head = cfg.n_head
        self.qkv = nn.Linear(cfg.d_model, 3 * cfg.d_model)
        self.proj = nn.Linear(cfg.d_model, cfg.d_model)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.n_head, c // self.n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class EncoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1 = nn.LayerNorm(cfg.d_model)
        self.attn = SelfAttention(cfg)
        self.ln2 = nn.LayerNorm(cfg.d_model)
        self.mlp = nn.Sequential(nn.Linear(cfg.d_model, cfg.d_ff), nn.GELU(), nn.Linear(cfg.d_ff, cfg.d_model))
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x):
        x = x + self.drop(self.attn(self.ln1(x)))
        return x + self.drop(self.mlp(self.ln2(x)))


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab_size, cfg.d_model, padding_idx=PAD)
        self.pos = nn.Parameter(torch.zeros(1, cfg.max_len, cfg.d_model))
        self.layers = nn.ModuleList(EncoderLayer(cfg) for _ in range(cfg.n_layer))
        self.norm = nn.LayerNorm(cfg.d_model)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[:, : ids.size(1)]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class LMHead(nn.Module):
    def __init__(self, cfg, embedding):
        super().__init__()
        self.dense = nn.Linear(cfg.d_model, cfg.d_model)
        self.norm = nn.LayerNorm(cfg.d_model)
        self.decoder = nn.Linear(cfg.d_model, cfg.vocab_size)
        if cfg.tie_weights:
            self.decoder.weight = embedding.weight

    def forward(self, hidden):
        return self.decoder(self.norm(F.gelu(self.dense(hidden))))


class ModelForMaskedLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.lm_head = LMHead(cfg, self.encoder.tok)
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)
            if getattr(m, "bias", None) is not None:
                nn.init.zeros_(m.bias)

    def forward(self, ids, labels):
        hidden = self.encoder(ids)
        logits = self.lm_head(hidden)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=-100)
        return loss


def lr_at(step, total, peak, warmup):
    if step < warmup:
        return peak * (step + 1) / warmup
    frac = (step - warmup) / max(1, total - warmup)
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * frac)))


def param_groups(model, wd):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": decay, "weight_decay": wd}, {"params": rest, "weight_decay": 0.0}]


@torch.no_grad()
def evaluate(model, corpus, batch_size, batches=2):
    model.eval()
    loss = sum(model(*corpus.batch(batch_size)).item() for _ in range(batches)) / batches
    model.train()
    return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--lr", type=float, default=6e-4)
    ap.add_argument("--log-every", type=int, default=10)
    ap.add_argument("--seed", type=int, default=1234)
    args = ap.parse_args()
    torch.manual_seed(args.seed)

    cfg = Config()
    train, valid = KmerCorpus(cfg, 4000, args.seed), KmerCorpus(cfg, 256, args.seed + 1)
    model = ModelForMaskedLM(cfg)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters, vocabulary {cfg.vocab_size}")
    opt = torch.optim.AdamW(param_groups(model, 0.01), lr=args.lr, betas=(0.9, 0.98), fused=True)

    t0, acc = time.time(), 0.0
    for step in range(args.steps):
        for g in opt.param_groups:
            g["lr"] = lr_at(step, args.steps, args.lr, warmup=8)
        ids, labels = train.batch(args.batch_size)
        loss = model(ids, labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        acc += loss.item()
        if (step + 1) % args.log_every == 0:
            dt = (time.time() - t0) / args.log_every
            print(f"step {step + 1:4d} | loss {acc / args.log_every:.4f} | {dt * 1e3:.0f} ms/step", flush=True)
            t0, acc = time.time(), 0.0
    print(f"validation loss {evaluate(model, valid, args.batch_size):.4f}")


if __name__ == "__main__":
    main()
