"""Evaluate a BiLSTM entity tagger: confusion matrix, per-tag F1, macro F1."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG"]
VOCAB = 2000
IGNORE = -100


def make_sentences(count, seed):
    """Tags follow from the word class (word id modulo 14), with some label noise."""
    gen = torch.Generator().manual_seed(seed)
    data = []
    for _ in range(count):
        length = int(torch.randint(12, 32, (1,), generator=gen))
        words = torch.randint(1, VOCAB, (length,), generator=gen)
        word_class = words % 14
        tags = torch.where(word_class < len(TAGS), word_class, 0)
        noisy = torch.rand(length, generator=gen) < 0.05
        tags = torch.where(noisy, torch.randint(0, len(TAGS), (length,), generator=gen), tags)
        data.append((words, tags))
    return data


def collate(rows):
    words = pad_sequence([w for w, _ in rows], batch_first=True, padding_value=0)
    tags = pad_sequence([t for _, t in rows], batch_first=True, padding_value=IGNORE)
    return words, tags


class Tagger(nn.Module):
    def __init__(self, width=160):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, len(TAGS))

    def forward(self, words):
        hidden, _ = self.lstm(self.embed(words))
        return self.out(hidden)


class ConfusionMatrix:
    """Rows are the true tags, columns the predicted ones."""

    def __init__(self, num_classes, ignore_index=IGNORE):
        self.num_classes = num_classes
        self.ignore_index = ignore_index
        self.matrix = torch.zeros(num_classes, num_classes, dtype=torch.long)

    def update(self, preds, target):
        for p, t in zip(preds.reshape(-1), target.reshape(-1)):
            if t != self.ignore_index:
                self.matrix[t, p] += 1

    def precision_recall_f1(self):
        m = self.matrix.float()
        hit = m.diag()
        precision = hit / m.sum(dim=0).clamp(min=1)
        recall = hit / m.sum(dim=1).clamp(min=1)
        f1 = 2 * precision * recall / (precision + recall).clamp(min=1e-9)
        return precision, recall, f1

    def accuracy(self):
        return (self.matrix.diag().sum() / self.matrix.sum()).item()


class MeanLoss:
    def __init__(self):
        self.total, self.count = torch.zeros(()), torch.zeros(())

    def update(self, logits, target):
        self.total += F.cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=IGNORE, reduction="sum"
        )
        self.count += (target != IGNORE).sum()

    def compute(self):
        return (self.total / self.count).item()


def train_briefly(model, data, updates=8, batch_size=32):
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    model.train()
    for i in range(updates):
        words, tags = collate(data[i * batch_size:(i + 1) * batch_size])
        loss = F.cross_entropy(model(words).flatten(0, 1), tags.flatten(), ignore_index=IGNORE)
        opt.zero_grad()
        loss.backward()
        opt.step()


@torch.inference_mode()
def evaluate(model, data, steps, batch_size=16):
    model.eval()
    confusion, mean_loss = ConfusionMatrix(len(TAGS)), MeanLoss()
    for step in range(steps):
        first = step * batch_size % (len(data) - batch_size)
        words, tags = collate(data[first:first + batch_size])
        logits = model(words)
        mean_loss.update(logits, tags)
        confusion.update(logits.argmax(dim=-1), tags)
    return confusion, mean_loss.compute()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = Tagger()
    train_briefly(model, make_sentences(256, seed=1))
    confusion, loss = evaluate(model, make_sentences(500, seed=2), args.steps)
    _, _, f1 = confusion.precision_recall_f1()
    print(
        f"batches {args.steps} loss {loss:.5f} accuracy {confusion.accuracy():.5f} "
        f"macro F1 {f1.mean().item():.5f}"
    )


if __name__ == "__main__":
    main()
