"""Evaluate a part-of-speech tagger: token accuracy, macro F1, confusion matrix."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

TAGS = ["PAD", "NOUN", "VERB", "ADJ", "ADV", "DET", "PREP", "PRON", "NUM", "PUNCT"]
VOCAB = 4000
MAX_LEN = 40


def make_sentences(count, seed):
    """Tags follow a Markov chain, each word belongs mostly to one tag."""
    gen = torch.Generator().manual_seed(seed)
    n = len(TAGS) - 1
    transition = torch.softmax(2.0 * torch.randn(n, n, generator=gen), dim=1)
    tags = torch.zeros(count, MAX_LEN, dtype=torch.long)
    tags[:, 0] = torch.randint(n, (count,), generator=gen)
    for t in range(1, MAX_LEN):
        tags[:, t] = torch.multinomial(transition[tags[:, t - 1]], 1, generator=gen).squeeze(1)
    tags += 1
    words = torch.randint(1, VOCAB // 10, tags.shape, generator=gen) * 10 + tags
    noise = torch.rand(tags.shape, generator=gen) < 0.1
    words[noise] = torch.randint(1, VOCAB, (int(noise.sum()),), generator=gen)
    words.clamp_(max=VOCAB - 1)
    lengths = torch.randint(12, MAX_LEN + 1, (count,), generator=gen)
    padding = torch.arange(MAX_LEN) >= lengths.unsqueeze(1)
    tags[padding] = 0
    words[padding] = 0
    return words, tags


class Tagger(nn.Module):
    def __init__(self, dim=64, hidden=96):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, words):
        h, _ = self.lstm(self.embed(words))
        return self.fc(h)


@torch.no_grad()
def fit_head(model, words, tags):
    """Least-squares output layer on top of the random recurrent features."""
    h, _ = model.lstm(model.embed(words))
    keep = tags != 0
    features = F.pad(h[keep], (0, 1), value=1.0)
    weight = torch.linalg.lstsq(features, 4.0 * F.one_hot(tags[keep], len(TAGS)).float()).solution
    model.fc.weight.copy_(weight[:-1].t())
    model.fc.bias.copy_(weight[-1])


class TagMetrics:
    def __init__(self, num_tags):
        self.confusion = torch.zeros(num_tags, num_tags, dtype=torch.long)
        self.loss_sum = 0.0
        self.tokens = 0

    def update(self, logits, tags):
        keep = tags != 0
        self.loss_sum += F.cross_entropy(logits[keep], tags[keep], reduction="sum").item()
        self.tokens += int(keep.sum())
        preds = logits.argmax(-1)
        for t, p in zip(tags[keep], preds[keep]):
            self.confusion[t, p] += 1

    def compute(self):
        c = self.confusion.float()
        tp = c.diag()[1:]
        precision = tp / c.sum(0)[1:].clamp(min=1)
        recall = tp / c.sum(1)[1:].clamp(min=1)
        f1 = 2 * precision * recall / (precision + recall).clamp(min=1e-9)
        return {
            "loss": self.loss_sum / self.tokens,
            "accuracy": (tp.sum() / c.sum()).item(),
            "macro_f1": f1.mean().item(),
        }


@torch.no_grad()
def evaluate(model, loader, max_batches):
    model.eval()
    metrics = TagMetrics(len(TAGS))
    done = 0
    while done < max_batches:
        for words, tags in loader:
            metrics.update(model(words), tags)
            done += 1
            if done == max_batches:
                break
    return metrics.compute()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()
    torch.manual_seed(0)

    words, tags = make_sentences(2432, seed=0)
    model = Tagger()
    fit_head(model, words[:384], tags[:384])
    loader = DataLoader(TensorDataset(words[384:], tags[384:]), batch_size=args.batch_size)
    result = evaluate(model, loader, args.steps)
    print(" ".join(f"{k} {v:.4f}" for k, v in result.items()))


if __name__ == "__main__":
    main()
