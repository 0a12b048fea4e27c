"""A click model of advertisements with explicit feature crosses (a deep & cross network)."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

FIELDS = (5000, 3000, 2000, 1000, 400, 200, 60, 24, 12, 7)
NUMBERS = 13


class Log:
    """Shown advertisements in memory: ten categories, thirteen numbers, and whether they were clicked."""

    def __init__(self, rows, seed=0):
        gen = torch.Generator().manual_seed(seed)
        skew = torch.rand(rows, len(FIELDS), generator=gen) ** 3
        offsets = torch.tensor((0, *FIELDS[:-1])).cumsum(0)
        self.ids = (skew * torch.tensor(FIELDS)).long() + offsets
        self.numbers = torch.randn(rows, NUMBERS, generator=gen)
        taste = torch.randn(sum(FIELDS), generator=gen)
        score = taste[self.ids[:, :4]].sum(1) * self.numbers[:, 0].sign() + self.numbers[:, 1] * self.numbers[:, 2]
        self.clicks = (score + torch.randn(rows, generator=gen) > 1.0).float()
        self.gen = gen

    def batches(self, size, rows):
        """Shuffled batches of the first rows; the others are for the test."""
        while True:
            order = torch.randperm(rows, generator=self.gen)
            for part in order.split(size)[:-1]:
                yield self.ids[part], self.numbers[part], self.clicks[part]


class Cross(nn.Module):
    """x0 x^T w + b + x: every layer multiplies the features by those of the layer before."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, 1) / width ** 0.5)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x0, x):
        products = torch.bmm(x0.unsqueeze(2), x.unsqueeze(1))
        return torch.matmul(products, self.weight).squeeze(2) + self.bias + x


class Ranker(nn.Module):
    def __init__(self, dim=8, crosses=2, hidden=(768, 384)):
        super().__init__()
        self.table = nn.Embedding(sum(FIELDS), dim, sparse=True)
        nn.init.normal_(self.table.weight, std=0.05)
        width = dim * len(FIELDS) + NUMBERS
        self.crosses = nn.ModuleList(Cross(width) for _ in range(crosses))
        layers, size = [], width
        for h in hidden:
            layers += [nn.Linear(size, h), nn.ReLU(inplace=True)]
            size = h
        self.deep = nn.Sequential(*layers)
        self.out = nn.Linear(width + size, 1)

    def forward(self, ids, numbers):
        x0 = torch.cat([self.table(ids).flatten(1), numbers], dim=1)
        x = x0
        for cross in self.crosses:
            x = cross(x0, x)
        return self.out(torch.cat([x, self.deep(x0)], dim=1)).squeeze(1)


def auc(scores, clicks):
    """The share of pairs of a click and none that are in the right order."""
    rank = torch.empty_like(scores)
    rank[scores.argsort()] = torch.arange(1, len(scores) + 1, dtype=scores.dtype)
    positive = clicks.sum()
    return ((rank * clicks).sum() - positive * (positive + 1) / 2) / (positive * (len(clicks) - positive))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=512)
    args = parser.parse_args()

    torch.manual_seed(0)
    log, rows = Log(42000), 40000
    model = Ranker()
    dense = [p for p in model.parameters() if p is not model.table.weight]
    optimizers = (
        torch.optim.SparseAdam([model.table.weight], lr=2e-3),
        torch.optim.Adam(dense, lr=1e-3),
    )
    total = torch.zeros(())
    stream = log.batches(args.batch_size, rows)
    for _ in range(args.steps):
        ids, numbers, clicks = next(stream)
        loss = F.binary_cross_entropy_with_logits(model(ids, numbers), clicks)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        total += loss.detach()

    with torch.inference_mode():
        quality = auc(model(log.ids[rows:], log.numbers[rows:]), log.clicks[rows:]).item()
    print(f"auc {quality:.3f} mean loss {total.item() / args.steps:.5f}")


if __name__ == "__main__":
    main()
