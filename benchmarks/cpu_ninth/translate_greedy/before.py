"""Greedy translation of a test set with an encoder-decoder Transformer."""
import argparse
import itertools
import math
import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PAD, BOS, EOS = 0, 1, 2
VOCAB = 4000


class Sentences(Dataset):
    def __init__(self, n=640, seed=11):
        g = torch.Generator().manual_seed(seed)
        lengths = torch.randint(20, 49, (n,), generator=g).tolist()
        lengths.sort()
        self.rows = [torch.randint(3, VOCAB, (k,), generator=g) for k in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


class PositionalEncoding(nn.Module):
    def __init__(self, d, max_len=256):
        super().__init__()
        pos = torch.arange(max_len)[:, None]
        div = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe = torch.zeros(max_len, d)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:x.size(1)]


class Translator(nn.Module):
    def __init__(self, d=128, heads=4, layers=3):
        super().__init__()
        self.d = d
        self.src_emb = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.pos = PositionalEncoding(d)
        self.transformer = nn.Transformer(d, heads, layers, layers, 4 * d, dropout=0.1,
                                          batch_first=True, norm_first=True)
        self.out = nn.Linear(d, VOCAB)

    def encode(self, src):
        x = self.pos(self.src_emb(src) * math.sqrt(self.d))
        return self.transformer.encoder(x, src_key_padding_mask=src == PAD)

    def decode(self, tgt, memory, memory_pad):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        x = self.pos(self.tgt_emb(tgt) * math.sqrt(self.d))
        return self.transformer.decoder(x, memory, tgt_mask=mask, tgt_is_causal=True,
                                        memory_key_padding_mask=memory_pad)

    def forward(self, src, tgt):
        hidden = self.decode(tgt, self.encode(src), src == PAD)
        return self.out(hidden)


@torch.inference_mode()
def greedy_translate(model, src, max_len=16):
    ys = torch.full((src.size(0), 1), BOS)
    finished = torch.zeros(src.size(0), dtype=torch.bool)
    for _ in range(max_len):
        logits = model(src, ys)
        nxt = logits[:, -1].argmax(-1)
        nxt = nxt.masked_fill(finished, PAD)
        ys = torch.cat([ys, nxt[:, None]], dim=1)
        finished |= nxt == EOS
        if finished.all():
            break
    return ys[:, 1:]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(5)
    loader = DataLoader(Sentences(), batch_size=8, collate_fn=collate)
    model = Translator().eval()

    times, checksum = [], 0
    start = time.perf_counter()
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    while len(times) < args.steps or (args.seconds and time.perf_counter() - start < args.seconds):
        t0 = time.perf_counter()
        src = next(batches)
        hyp = greedy_translate(model, src)
        times.append(time.perf_counter() - t0)
        checksum += int(hyp.sum())
    print(f"step_ms {statistics.median(times[5:]) * 1000:.3f}")
    return checksum


if __name__ == "__main__":
    main()
