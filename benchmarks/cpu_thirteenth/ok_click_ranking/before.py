"""Click prediction: hashed categorical features, embedding bags and a small deep net."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

FIELDS, BUCKETS, DENSE = 12, 20_000, 8


def make_log(n=60_000, seed=37):
    """Impressions with Zipf-like categories and a logistic click model."""
    g = torch.Generator().manual_seed(seed)
    u = torch.rand(n, FIELDS, generator=g)
    categories = (BUCKETS * u**4).long()
    dense = torch.randn(n, DENSE, generator=g)
    effect = torch.randn(FIELDS, BUCKETS, generator=g)
    signal = effect.gather(1, categories.T).sum(0) * 0.5 + dense[:, 0] - 0.5 * dense[:, 1]
    clicks = torch.rand(n, generator=g) < torch.sigmoid(signal - 1.0)
    return categories + torch.arange(FIELDS) * BUCKETS, dense, clicks.float()


class DeepCross(nn.Module):
    def __init__(self, dim=16, hidden=512):
        super().__init__()
        self.embed = nn.Embedding(FIELDS * BUCKETS, dim, sparse=True)
        self.wide = nn.EmbeddingBag(FIELDS * BUCKETS, 1, mode="sum", sparse=True)
        nn.init.normal_(self.embed.weight, std=0.05)
        nn.init.zeros_(self.wide.weight)
        width = FIELDS * dim + DENSE
        self.cross = nn.Linear(width, width)
        self.deep = nn.Sequential(
            nn.Linear(width, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, categories, dense):
        x = torch.cat([self.embed(categories).flatten(1), dense], dim=1)
        x = x + x * self.cross(x)
        return (self.deep(x) + self.wide(categories)).squeeze(1)

    def parameter_groups(self):
        tables = [self.embed.weight, self.wide.weight]
        rest = [p for name, p in self.named_parameters() if not name.startswith(("embed", "wide"))]
        return tables, rest


def auc(scores, labels):
    """Area under the ROC curve from the rank sum of the positives."""
    ranks = torch.empty_like(scores).scatter_(
        0, scores.argsort(), torch.arange(1, len(scores) + 1, dtype=scores.dtype)
    )
    n_pos = labels.sum()
    n_neg = len(labels) - n_pos
    return (ranks[labels > 0].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=1024)
    args = parser.parse_args()
    torch.manual_seed(0)

    categories, dense, clicks = make_log()
    n_train = 52_000
    model = DeepCross()
    tables, rest = model.parameter_groups()
    optimizers = [
        torch.optim.SGD(tables, lr=5.0),
        torch.optim.AdamW(rest, lr=1e-3, fused=True),
    ]
    g = torch.Generator().manual_seed(3)

    model.train()
    for step in range(args.steps):
        pick = torch.randint(n_train, (args.batch_size,), generator=g)
        loss = F.binary_cross_entropy_with_logits(model(categories[pick], dense[pick]), clicks[pick])
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()

    model.eval()
    with torch.inference_mode():
        scores = model(categories[n_train:], dense[n_train:]).double()
    print(f"loss {loss.item():.4f}  held-out AUC {auc(scores, clicks[n_train:].double()).item():.4f}")


if __name__ == "__main__":
    main()
