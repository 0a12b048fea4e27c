"""Domain-adaptive masked-LM pretraining with gradient accumulation.

A compact BERT-style encoder with tied embeddings, trained on packed blocks of
token ids (synthetic corpus with a Zipf vocabulary and local structure).
"""
import argparse
import json
import logging
import math
import os
import tempfile
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("mlm")

PAD, CLS, SEP, MASK = 0, 1, 2, 3
N_SPECIAL = 4


@dataclass
class EncoderConfig:
    vocab_size: int = 16000
    hidden: int = 128
    layers: int = 3
    heads: int = 4
    ffn: int = 384
    max_len: int = 96
    dropout: float = 0.0


class SelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.hidden, 3 * cfg.hidden)
        self.out = nn.Linear(cfg.hidden, cfg.hidden)

    def forward(self, x, key_mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=key_mask)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn = SelfAttention(cfg)
        self.ln1 = nn.LayerNorm(cfg.hidden)
        self.ln2 = nn.LayerNorm(cfg.hidden)
        self.ffn = nn.Sequential(
            nn.Linear(cfg.hidden, cfg.ffn), nn.GELU(), nn.Linear(cfg.ffn, cfg.hidden), nn.Dropout(cfg.dropout))

    def forward(self, x, key_mask):
        x = x + self.attn(self.ln1(x), key_mask)
        return x + self.ffn(self.ln2(x))


class MLMHead(nn.Module):
    def __init__(self, cfg, tied_weight):
        super().__init__()
        self.dense = nn.Linear(cfg.hidden, cfg.hidden)
        self.norm = nn.LayerNorm(cfg.hidden)
        self.decoder_weight = tied_weight
        self.bias = nn.Parameter(torch.zeros(cfg.vocab_size))

    def forward(self, h):
        h = self.norm(F.gelu(self.dense(h)))
        return F.linear(h, self.decoder_weight, self.bias)


class MaskedLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(cfg.vocab_size, cfg.hidden, padding_idx=PAD)
        self.pos = nn.Embedding(cfg.max_len, cfg.hidden)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.final_norm = nn.LayerNorm(cfg.hidden)
        self.head = MLMHead(cfg, self.tok.weight)
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)

    def encode(self, ids):
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        key_mask = (ids != PAD)[:, None, None, :]
        for block in self.blocks:
            x = block(x, key_mask)
        return self.final_norm(x)

    def forward(self, ids, labels=None):
        h = self.encode(ids)
        scores = self.head(h)
        if labels is None:
            return scores, None
        loss = F.cross_entropy(scores.view(-1, self.cfg.vocab_size), labels.view(-1), ignore_index=-100)
        return scores, loss


class BlockCorpus:
    """Packed blocks; words follow a Zipf law and neighbours are correlated."""

    def __init__(self, n_blocks, cfg, seed):
        rng = np.random.default_rng(seed)
        body = cfg.max_len - 2
        words = rng.zipf(1.25, size=(n_blocks, body)) % (cfg.vocab_size - N_SPECIAL)
        repeat = rng.random((n_blocks, body)) < 0.4
        for j in range(1, body):
            words[:, j] = np.where(repeat[:, j], (words[:, j - 1] * 7 + 3) % 600, words[:, j])
        ids = np.full((n_blocks, cfg.max_len), PAD, dtype=np.int64)
        ids[:, 0], ids[:, 1:-1], ids[:, -1] = CLS, words + N_SPECIAL, SEP
        short = rng.integers(cfg.max_len // 2, cfg.max_len + 1, size=n_blocks)
        for i, n in enumerate(short):
            ids[i, n - 1] = SEP
            ids[i, n:] = PAD
        self.ids = torch.from_numpy(ids)

    def batches(self, batch_size, generator):
        while True:
            order = torch.randperm(len(self.ids), generator=generator)
            for chunk in order.split(batch_size):
                if len(chunk) == batch_size:
                    yield self.ids[chunk]


def mask_tokens(ids, vocab_size, generator, prob=0.15):
    labels = ids.clone()
    chosen = (torch.rand(ids.shape, generator=generator) < prob) & (ids >= N_SPECIAL)
    labels[~chosen] = -100
    roll = torch.rand(ids.shape, generator=generator)
    out = ids.clone()
    out[chosen & (roll < 0.8)] = MASK
    swap = chosen & (roll >= 0.9)
    random_ids = torch.randint(N_SPECIAL, vocab_size, ids.shape, generator=generator)
    out[swap] = random_ids[swap]
    return out, labels


def lr_lambda(warmup, total):
    def f(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))
    return f


def param_groups(model, weight_decay):
    decay = [p for p in model.parameters() if p.ndim >= 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--max-steps", type=int, default=40)
    ap.add_argument("--micro-batch", type=int, default=4)
    ap.add_argument("--accumulate", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--log-every", type=int, default=5)
    ap.add_argument("--seed", type=int, default=13)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    cfg = EncoderConfig()
    corpus = BlockCorpus(1500, cfg, args.seed)
    model = MaskedLM(cfg)
    optimizer = torch.optim.AdamW(param_groups(model, 0.01), lr=args.lr, betas=(0.9, 0.98))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda(5, args.max_steps))
    stream = corpus.batches(args.micro_batch, gen)
    log.info("%d blocks, %.1fM parameters, %d x %d sequences a step", len(corpus.ids),
             sum(p.numel() for p in model.parameters()) / 1e6, args.accumulate, args.micro_batch)

    window_loss, window_tokens, begin = 0.0, 0, time.time()
    for step in range(1, args.max_steps + 1):
        for _ in range(args.accumulate):
            ids, labels = mask_tokens(next(stream), cfg.vocab_size, gen)
            _, loss = model(ids, labels)
            (loss / args.accumulate).backward()
            window_loss += loss.item() / args.accumulate
            window_tokens += ids.numel()
        grad_norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        if step % args.log_every == 0:
            took = time.time() - begin
            mean = window_loss / args.log_every
            log.info("step %d loss %.4f ppl %.1f gnorm %.2f %.0f ms/step %.0f tok/s", step, mean, math.exp(mean),
                     grad_norm, 1e3 * took / args.log_every, window_tokens / took)
            window_loss, window_tokens, begin = 0.0, 0, time.time()

    with tempfile.TemporaryDirectory() as out:
        torch.save(model.state_dict(), os.path.join(out, "pytorch_model.bin"))
        with open(os.path.join(out, "config.json"), "w") as f:
            json.dump(asdict(cfg), f)
        log.info("saved %d bytes", sum(os.path.getsize(os.path.join(out, n)) for n in os.listdir(out)))


if __name__ == "__main__":
    main()
