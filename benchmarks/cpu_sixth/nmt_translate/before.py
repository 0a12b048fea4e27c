"""Translate a file of sentences with a trained nn.Transformer (greedy search).

Usage: python before.py [--checkpoint model.pt] [--batch-size 16]
"""
import argparse
import logging
import math
import os
import statistics
import time

import numpy as np
import torch
from torch import nn

PAD, BOS, EOS = 0, 1, 2
log = logging.getLogger("translate")


class PositionalEncoding(nn.Module):
    def __init__(self, dim, max_len=512):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pe = torch.zeros(max_len, dim)
        pe[:, 0::2] = torch.sin(pos * div)
        pe[:, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.shape[1]]


class Seq2Seq(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, dim=96, heads=4, layers=3):
        super().__init__()
        self.scale = math.sqrt(dim)
        self.src_emb = nn.Embedding(src_vocab, dim, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(tgt_vocab, dim, padding_idx=PAD)
        self.pos = PositionalEncoding(dim)
        self.transformer = nn.Transformer(dim, heads, layers, layers, dim * 4, batch_first=True)
        self.generator = nn.Linear(dim, tgt_vocab)

    def encode(self, src):
        x = self.pos(self.src_emb(src) * self.scale)
        return self.transformer.encoder(x, src_key_padding_mask=src.eq(PAD))

    def decode(self, tgt, memory, src):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        y = self.pos(self.tgt_emb(tgt) * self.scale)
        return self.transformer.decoder(y, memory, tgt_mask=mask, tgt_is_causal=True,
                                        memory_key_padding_mask=src.eq(PAD))

    def forward(self, src, tgt):
        return self.generator(self.decode(tgt, self.encode(src), src))


@torch.no_grad()
def greedy_translate(model, src, max_len):
    """Returns (batch, <= max_len) token ids, without BOS."""
    out = torch.full((len(src), 1), BOS)
    done = torch.zeros(len(src), dtype=torch.bool)
    for _ in range(max_len):
        logits = model(src, out)
        nxt = logits[:, -1].argmax(-1).masked_fill(done, PAD)
        out = torch.cat([out, nxt.unsqueeze(1)], dim=1)
        done |= nxt.eq(EOS)
        if done.all():
            break
    return out[:, 1:]


def read_sentences(count, vocab, seed):
    """Stand-in for the tokenised input file."""
    rng = np.random.default_rng(seed)
    return [rng.integers(3, vocab, rng.integers(35, 60)).tolist() for _ in range(count)]


def to_batches(sentences, size):
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    for k in range(0, len(order), size):
        rows = [sentences[i] + [EOS] for i in order[k:k + size]]
        width = max(map(len, rows))
        yield torch.tensor([r + [PAD] * (width - len(r)) for r in rows])


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--checkpoint")
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--max-len", type=int, default=16)
    ap.add_argument("--vocab", type=int, default=2000)
    ap.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 80)))
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(17)
    model = Seq2Seq(args.vocab, args.vocab)
    if args.checkpoint:
        model.load_state_dict(torch.load(args.checkpoint, map_location="cpu"))
    model.eval()

    sentences = read_sentences(args.steps * args.batch_size, args.vocab, seed=17)
    times, words, digest = [], 0, 0
    for i, src in enumerate(to_batches(sentences, args.batch_size), 1):
        start = time.perf_counter()
        hyp = greedy_translate(model, src, args.max_len)
        times.append(time.perf_counter() - start)
        words += int(hyp.ne(PAD).sum())
        digest = (digest * 31 + int(hyp.sum())) % 1_000_003
        if i % 20 == 0:
            log.info("batch %d, %d words", i, words)
    print(f"words {words} digest {digest}")
    print(f"step {statistics.median(times[3:]) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
