"""Translate a test set greedily with a trained transformer and score it."""
import argparse
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset

from model import Seq2Seq

PAD, BOS, EOS = 0, 1, 2
VOCAB = 1000


class ParallelCorpus(Dataset):
    """Sentences and their 'translations' (a permuted vocabulary, every third word)."""

    def __init__(self, n, max_len=72, seed=0):
        g = torch.Generator().manual_seed(seed)
        mapping = torch.randperm(VOCAB - 3, generator=g) + 3
        self.pairs = []
        for _ in range(n):
            length = int(torch.randint(max_len // 2, max_len, (1,), generator=g))
            src = torch.randint(3, VOCAB, (length,), generator=g)
            self.pairs.append((src, mapping[src[::3] - 3]))

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        return self.pairs[i]


def collate(pairs):
    src = torch.nn.utils.rnn.pad_sequence([s for s, _ in pairs], True, PAD)
    tgt = torch.nn.utils.rnn.pad_sequence([t for _, t in pairs], True, PAD)
    return src, tgt


def greedy_decode(model, src, max_len):
    padding = src == PAD
    output = torch.full((src.size(0), 1), BOS)
    finished = torch.zeros(src.size(0), dtype=torch.bool)
    for _ in range(max_len):
        logits = model(src, output, padding)
        token = logits[:, -1].argmax(dim=-1)
        token = token.masked_fill(finished, PAD)
        output = torch.cat([output, token.unsqueeze(1)], dim=1)
        finished |= token == EOS
        if finished.all():
            break
    return output[:, 1:]


def unigram_precision(hypotheses, references):
    matched, total = 0, 0
    for hyp, ref in zip(hypotheses.tolist(), references.tolist()):
        words = set(ref) - {PAD}
        hyp = [w for w in hyp if w not in (PAD, EOS)]
        matched += sum(w in words for w in hyp)
        total += len(hyp)
    return matched, total


def load_model(path):
    model = Seq2Seq(VOCAB)
    if path and os.path.exists(path):
        model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--max-len", type=int, default=16)
    parser.add_argument("--checkpoint", default="")
    args = parser.parse_args()
    torch.manual_seed(0)

    model = load_model(args.checkpoint)
    corpus = ParallelCorpus(args.steps * args.batch_size)
    loader = DataLoader(corpus, batch_size=args.batch_size, collate_fn=collate)
    matched = total = checksum = 0
    start = time.perf_counter()
    with torch.no_grad():
        for step, (src, tgt) in enumerate(loader):
            if step == 5:
                start = time.perf_counter()
            hypotheses = greedy_decode(model, src, args.max_len)
            m, t = unigram_precision(hypotheses, tgt)
            matched, total = matched + m, total + t
            checksum += int(hypotheses.sum())
    elapsed = time.perf_counter() - start
    print(f"{total} words, precision {matched / max(1, total):.4f}, checksum {checksum}")
    print(f"mean step {1000 * elapsed / max(1, args.steps - 5):.2f} ms")


if __name__ == "__main__":
    main()
