"""Scores a sentiment model on a test set of product reviews and reports accuracy and calibration."""
import argparse
import random
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, VOCAB = 0, 2000
GOOD, BAD = range(10, 60), range(60, 110)


class ReviewDataset(Dataset):
    """Reviews as token ids; the share of pleased and displeased words follows the label."""

    def __init__(self, n, seed=0, max_len=96):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            label = rng.random() < 0.5
            length = min(max_len, max(24, int(rng.gauss(72, 16))))
            ids = []
            for _ in range(length):
                u = rng.random()
                if u < 0.10:
                    ids.append(rng.choice(GOOD if label else BAD))
                elif u < 0.15:
                    ids.append(rng.choice(BAD if label else GOOD))
                else:
                    ids.append(min(VOCAB - 1, 110 + int(rng.expovariate(1 / 300))))
            self.items.append((torch.tensor(ids), int(label)))
        # neighbours in length share a batch, so that little is padded
        self.items.sort(key=lambda item: len(item[0]))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    lengths = torch.tensor([len(ids) for ids, _ in items])
    ids = pad_sequence([ids for ids, _ in items], batch_first=True, padding_value=PAD)
    return ids, lengths, torch.tensor([label for _, label in items])


class SentimentModel(nn.Module):
    def __init__(self, dim=96, hidden=128, layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, hidden, layers, batch_first=True, bidirectional=True, dropout=0.2)
        self.skip = nn.Linear(dim, 2, bias=False)
        self.head = nn.Linear(2 * hidden, 2)

    def forward(self, ids, lengths):
        x = self.embed(ids)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        count = lengths[:, None]
        return self.head(states.sum(1) / count) + self.skip(x.sum(1) / count)


def load_model():
    """Stands for a checkpoint: word vectors that lean towards or away from the sentiment axis."""
    model = SentimentModel()
    axis = F.normalize(torch.randn(model.embed.embedding_dim), dim=0)
    with torch.no_grad():
        model.embed.weight.mul_(0.3)
        model.embed.weight[list(GOOD)] += 2.0 * axis
        model.embed.weight[list(BAD)] -= 2.0 * axis
        model.skip.weight.copy_(6.0 * torch.stack([-axis, axis]))
    return model


class CalibrationMeter:
    """Expected calibration error over equal-width bins of confidence."""

    def __init__(self, bins=10):
        self.bins = bins
        self.count, self.conf, self.hits = torch.zeros(bins), torch.zeros(bins), torch.zeros(bins)

    def update(self, probs, labels):
        conf, pred = probs.max(1)
        index = (conf * self.bins).long().clamp_(max=self.bins - 1)
        self.count.index_add_(0, index, torch.ones_like(conf))
        self.conf.index_add_(0, index, conf)
        self.hits.index_add_(0, index, (pred == labels).float())

    def compute(self):
        total = self.count.sum()
        gap = (self.hits - self.conf).abs()
        return (gap.sum() / total).item(), (self.hits.sum() / total).item()


@torch.inference_mode()
def evaluate(model, loader, steps):
    model.eval()
    meter = CalibrationMeter()
    total_loss, done, times = 0.0, 0, []
    while done < steps:
        tick = time.perf_counter()
        for ids, lengths, labels in loader:
            logits = model(ids, lengths)
            total_loss += F.cross_entropy(logits, labels).detach()
            meter.update(logits.softmax(1).detach(), labels)
            now = time.perf_counter()
            times.append(now - tick)
            tick = now
            done += 1
            if done >= steps:
                break
    ece, accuracy = meter.compute()
    return {"loss": float(total_loss) / done, "accuracy": accuracy, "ece": ece,
            "step_ms": 1000 * statistics.median(times[5:])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40, help="batches to score")
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(3)
    torch.set_num_threads(1)

    loader = DataLoader(ReviewDataset(1600), batch_size=args.batch_size, collate_fn=collate)
    result = evaluate(load_model(), loader, args.steps)
    print(f"accuracy {result['accuracy']:.4f} ece {result['ece']:.4f}")
    print(f"loss {result['loss']:.4f}")
    print(f"step {result['step_ms']:.2f} ms")


if __name__ == "__main__":
    main()
