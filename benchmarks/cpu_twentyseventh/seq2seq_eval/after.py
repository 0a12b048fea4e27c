"""Evaluate a sequence to sequence transformer: greedy decoding and token statistics."""
import argparse
import math
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

PAD, BOS, EOS = 0, 1, 2
VOCAB = 600


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=128):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class Seq2Seq(nn.Module):
    def __init__(self, d_model=128, nhead=4, enc_layers=2, dec_layers=3):
        super().__init__()
        self.d_model = d_model
        self.src_embed = nn.Embedding(VOCAB, d_model, padding_idx=PAD)
        self.tgt_embed = nn.Embedding(VOCAB, d_model, padding_idx=PAD)
        self.pos = PositionalEncoding(d_model)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d_model, nhead, 4 * d_model, batch_first=True),
            enc_layers, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(d_model, nhead, 4 * d_model, batch_first=True), dec_layers)
        self.generator = nn.Linear(d_model, VOCAB)

    def encode(self, src, src_mask):
        x = self.pos(self.src_embed(src) * math.sqrt(self.d_model))
        return self.encoder(x, src_key_padding_mask=src_mask)

    def decode(self, tgt, memory, src_mask):
        length = tgt.size(1)
        causal = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
        x = self.pos(self.tgt_embed(tgt) * math.sqrt(self.d_model))
        x = self.decoder(x, memory, tgt_mask=causal, memory_key_padding_mask=src_mask)
        return self.generator(x)

    def forward(self, src, tgt):
        src_mask = src == PAD
        return self.decode(tgt, self.encode(src, src_mask), src_mask)


class TestSet(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.sources = []
        for _ in range(n):
            length = int(torch.randint(14, 33, (1,), generator=g))
            self.sources.append(torch.randint(3, VOCAB, (length,), generator=g))

    def __len__(self):
        return len(self.sources)

    def __getitem__(self, index):
        return self.sources[index]


def collate(sources):
    return nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=PAD)


def export_checkpoint(path, seed):
    """Stands in for the download of the trained weights."""
    torch.manual_seed(seed)
    model = Seq2Seq()
    torch.save({"model": model.state_dict()}, path)


def greedy_decode(model, src, max_len):
    ys = torch.full((src.size(0), 1), BOS, dtype=torch.long)
    finished = torch.zeros(src.size(0), dtype=torch.bool)
    src_mask = src == PAD
    memory = model.encode(src, src_mask)
    for _ in range(max_len):
        logits = model.decode(ys, memory, src_mask)
        token = logits[:, -1].argmax(dim=-1)
        token = token.masked_fill(finished, PAD)
        ys = torch.cat([ys, token.unsqueeze(1)], dim=1)
        finished |= token == EOS
        if finished.all():
            break
    return ys[:, 1:]


@torch.no_grad()
def evaluate(model, loader, args):
    model.eval()
    counts, tokens, copied = Counter(), 0, 0
    step = 0
    start = time.time()
    while step < args.steps:
        for src in loader:
            hyps = greedy_decode(model, src, args.max_len)
            for s, h in zip(src.tolist(), hyps.tolist()):
                words = [t for t in h if t not in (PAD, EOS)]
                counts.update(words)
                tokens += len(words)
                copied += len(set(words) & set(s))
            step += 1
            if step % 20 == 0:
                print(f"batch {step}: {tokens / (time.time() - start):.0f} tokens/s")
            if step >= args.steps:
                break
    return counts, tokens, copied


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=140)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--max-len", type=int, default=16)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        export_checkpoint(path, args.seed)
        model = Seq2Seq()
        model.load_state_dict(torch.load(path)["model"])
    loader = DataLoader(TestSet(640, args.seed), args.batch_size, collate_fn=collate)
    counts, tokens, copied = evaluate(model, loader, args)
    print(f"tokens {tokens} distinct {len(counts)} copied {copied} "
          f"top {counts.most_common(1)[0]}")


if __name__ == "__main__":
    main()
