"""Offline evaluation of a session recommender: hit rate, MRR, coverage."""

import argparse

import torch
from torch import nn

ITEMS = 4000
CUTOFF = 20


class SessionEncoder(nn.Module):
    def __init__(self, dim=64, hidden=192):
        super().__init__()
        self.items = nn.Embedding(ITEMS, dim)
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.project = nn.Linear(hidden, dim)
        self.popularity = nn.Parameter(torch.zeros(ITEMS))

    def forward(self, clicks):
        _, state = self.rnn(self.items(clicks))
        return torch.addmm(self.popularity, self.project(state[0]), self.items.weight.t())


class Sessions:
    """Click sequences that drift through the catalogue; the last click is held out."""

    def __init__(self, length, seed):
        self.length = length
        self.rng = torch.Generator().manual_seed(seed)

    def batch(self, size):
        start = torch.randint(0, ITEMS, (size, 1), generator=self.rng)
        hops = torch.randint(1, 40, (size, self.length), generator=self.rng).cumsum(1)
        clicks = (start + hops) % ITEMS
        return clicks[:, :-1], clicks[:, -1]


class RankingReport:
    """Accumulates ranking quality over batches of scored sessions."""

    def __init__(self):
        self.sessions = 0
        self.hits = torch.zeros((), dtype=torch.float64)
        self.reciprocal = torch.zeros((), dtype=torch.float64)
        self.log_rank = torch.zeros((), dtype=torch.float64)
        self.shown = torch.zeros(ITEMS, dtype=torch.bool)

    def update(self, scores, target):
        rank = (scores > scores.gather(1, target[:, None])).sum(1) + 1
        self.shown[scores.topk(CUTOFF, dim=1, sorted=False).indices.reshape(-1)] = True
        self.sessions += len(target)
        self.hits += (rank <= CUTOFF).sum()
        self.reciprocal += rank.double().reciprocal().sum()
        self.log_rank += rank.double().log().sum()

    def summary(self):
        return {
            "hit": (self.hits / self.sessions).item(),
            "mrr": (self.reciprocal / self.sessions).item(),
            "log_rank": (self.log_rank / self.sessions).item(),
            "coverage": self.shown.double().mean().item(),
        }


@torch.inference_mode()
def evaluate(model, sessions, steps, batch):
    model.eval()
    report = RankingReport()
    for _ in range(steps):
        clicks, target = sessions.batch(batch)
        scores = model(clicks)
        kept = scores.gather(1, target[:, None])
        scores.scatter_(1, clicks, float("-inf"))
        scores.scatter_(1, target[:, None], kept)
        report.update(scores, target)
    return report.summary()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=96)
    args = parser.parse_args()

    torch.manual_seed(41)
    model = SessionEncoder()
    with torch.no_grad():
        model.popularity.normal_(std=2.0)
    summary = evaluate(model, Sessions(length=31, seed=14), args.steps, args.batch)
    print(" ".join(f"{name} {value:.6f}" for name, value in summary.items()))
    print(f"final score {sum(summary.values()):.6f}")


if __name__ == "__main__":
    main()
