"""News topic classifier on hashed bags of words, trained with gradient accumulation."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

BUCKETS = 4096
TOPICS = 12


def make_articles(n=2000, seed=19):
    """Sparse non-negative word counts (log-scaled) with topic-specific buckets."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(TOPICS, (n,), generator=g)
    common = torch.randint(BUCKETS, (n, 120), generator=g)
    special = labels[:, None] * 40 + torch.randint(160, (n, 30), generator=g)
    words = torch.cat([common, special % BUCKETS], dim=1)
    counts = torch.zeros(n, BUCKETS).scatter_add_(1, words, torch.ones(words.shape))
    return torch.log1p(counts), labels


class TopicNet(nn.Module):
    def __init__(self, hidden=640, depth=2):
        super().__init__()
        self.input = nn.Linear(BUCKETS, hidden)
        self.hidden = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(depth)])
        self.output = nn.Linear(hidden, TOPICS)

    def forward(self, x):
        x = F.relu(self.input(x))
        for linear, norm in zip(self.hidden, self.norms):
            x = x + F.relu(linear(norm(x)))
        return self.output(x)


class MicroBatches:
    def __init__(self, features, labels, size, seed=1):
        self.features, self.labels, self.size = features, labels, size
        self.g = torch.Generator().manual_seed(seed)

    def next(self):
        pick = torch.randint(len(self.labels), (self.size,), generator=self.g)
        return self.features[pick], self.labels[pick]


def train(model, batches, optimizer, args):
    history = []
    for step in range(args.steps):
        optimizer.zero_grad()
        step_loss = 0.0
        for _ in range(args.accumulate):
            features, labels = batches.next()
            loss = F.cross_entropy(model(features), labels)
            (loss / args.accumulate).backward()
            step_loss += loss.item() / args.accumulate
        optimizer.step()
        history.append(step_loss)
    return history


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps")
    parser.add_argument("--micro-batch", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--l2", type=float, default=5e-4)
    args = parser.parse_args()
    torch.manual_seed(0)

    features, labels = make_articles()
    model = TopicNet()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, weight_decay=2 * args.l2
    )
    history = train(model, MicroBatches(features, labels, args.micro_batch), optimizer, args)
    print(f"data loss, last steps: {sum(history[-5:]) / len(history[-5:]):.4f}")


if __name__ == "__main__":
    main()
