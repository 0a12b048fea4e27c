"""Churn prediction on a wide table: piecewise-linear numeric encodings, categorical
embeddings and an MLP, trained with early stopping on validation AUC."""
import argparse
import logging
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("churn")


def make_table(n_rows, n_num, cards, seed):
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n_rows, 12)).astype(np.float32)
    num = latent @ rng.normal(size=(12, n_num)).astype(np.float32) * 0.4
    num += rng.normal(size=num.shape).astype(np.float32)
    skew = rng.random(n_num) < 0.4
    num[:, skew] = np.exp(num[:, skew])
    cat = np.stack([(np.abs(latent[:, k % 12] * c / 3).astype(np.int64) + rng.integers(0, 2, n_rows)) % c
                    for k, c in enumerate(cards)], axis=1)
    score = latent[:, 0] * latent[:, 1] + np.sin(2 * latent[:, 2]) + 0.5 * (cat[:, 0] % 2)
    y = (score + rng.normal(0, 0.5, n_rows) > 0.6).astype(np.float32)
    return torch.from_numpy(num), torch.from_numpy(cat), torch.from_numpy(y)


def quantile_edges(x, n_bins):
    q = torch.linspace(0, 1, n_bins + 1)
    edges = torch.quantile(x[:4000], q, dim=0).t().contiguous()
    width = (edges[:, 1:] - edges[:, :-1]).clamp(min=1e-6)
    return edges[:, :-1], width


class PiecewiseLinearEncoding(nn.Module):
    """(B, F) -> (B, F, n_bins)"""

    def __init__(self, edges, width):
        super().__init__()
        self.register_buffer("edges", edges)
        self.register_buffer("width", width)

    def forward(self, x):
        return ((x.unsqueeze(-1) - self.edges) / self.width).clamp_(0, 1)


class NumericTokenizer(nn.Module):
    def __init__(self, n_features, n_bins, d_token):
        super().__init__()
        projections = [nn.Linear(n_bins, d_token) for _ in range(n_features)]
        self.weight = nn.Parameter(torch.stack([p.weight.detach().t() for p in projections]))
        self.bias = nn.Parameter(torch.stack([p.bias.detach() for p in projections]).unsqueeze(1))

    def forward(self, x):
        tokens = torch.baddbmm(self.bias, x.transpose(0, 1), self.weight)
        return F.relu(tokens).transpose(0, 1)


class CategoricalTokenizer(nn.Module):
    def __init__(self, cards, d_token):
        super().__init__()
        self.register_buffer("offsets", torch.tensor([0] + list(cards[:-1])).cumsum(0))
        self.emb = nn.Embedding(sum(cards), d_token)
        nn.init.normal_(self.emb.weight, std=0.1)

    def forward(self, c):
        return self.emb(c + self.offsets)


class ChurnNet(nn.Module):
    def __init__(self, edges, width, cards, d_token, hidden, dropout):
        super().__init__()
        n_num, n_bins = edges.shape
        self.encode = PiecewiseLinearEncoding(edges, width)
        self.numeric = NumericTokenizer(n_num, n_bins, d_token)
        self.categorical = CategoricalTokenizer(cards, d_token)
        d_in = (n_num + len(cards)) * d_token
        self.mlp = nn.Sequential(
            nn.Linear(d_in, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, 1))

    def forward(self, num, cat):
        tokens = torch.cat([self.numeric(self.encode(num)), self.categorical(cat)], dim=1)
        return self.mlp(tokens.flatten(1)).squeeze(-1)


def auc(scores, y):
    rank = scores.argsort().argsort().double() + 1
    pos = y.sum().item()
    neg = len(y) - pos
    return (rank[y.bool()].sum().item() - pos * (pos + 1) / 2) / (pos * neg)


class EarlyStopping:
    def __init__(self, patience):
        self.best, self.bad, self.patience = -1.0, 0, patience
        self.state = None

    def __call__(self, value, model):
        if value > self.best:
            self.best, self.bad = value, 0
            self.state = {k: v.clone() for k, v in model.state_dict().items()}
        else:
            self.bad += 1
        return self.bad >= self.patience


@torch.no_grad()
def predict(model, num, cat, batch=2000):
    model.eval()
    out = torch.cat([model(n, c).sigmoid() for n, c in zip(num.split(batch), cat.split(batch))])
    model.train()
    return out


def fit(model, train, valid, args):
    num, cat, y = train
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="max", patience=1)
    stopper = EarlyStopping(args.patience)
    for epoch in range(args.epochs):
        perm = torch.randperm(len(y))
        tic, losses = time.perf_counter(), []
        for idx in perm.split(args.batch_size):
            if len(idx) < args.batch_size:
                continue
            loss = F.binary_cross_entropy_with_logits(model(num[idx], cat[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        took = time.perf_counter() - tic
        score = auc(predict(model, *valid[:2]), valid[2])
        sched.step(score)
        log.info("epoch %d train %.5f valid auc %.4f  %.1f rows/s", epoch, np.mean(losses), score,
                 len(losses) * args.batch_size / took)
        if stopper(score, model):
            break
    model.load_state_dict(stopper.state)
    return stopper.best


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=20000)
    ap.add_argument("--numeric", type=int, default=240)
    ap.add_argument("--bins", type=int, default=8)
    ap.add_argument("--d-token", type=int, default=4)
    ap.add_argument("--hidden", type=int, default=256)
    ap.add_argument("--dropout", type=float, default=0.1)
    ap.add_argument("--batch-size", type=int, default=1024)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--patience", type=int, default=3)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(7)
    cards = [4, 12, 7, 50, 31, 2, 90, 18, 5, 9]
    num, cat, y = make_table(args.rows, args.numeric, cards, seed=7)
    cut = int(0.8 * args.rows)
    edges, width = quantile_edges(num[:cut], args.bins)
    model = ChurnNet(edges, width, cards, args.d_token, args.hidden, args.dropout)
    log.info("%d parameters, churn rate %.3f", sum(p.numel() for p in model.parameters()), y.mean())
    best = fit(model, (num[:cut], cat[:cut], y[:cut]), (num[cut:], cat[cut:], y[cut:]), args)
    print(f"best valid auc {best:.5f}")


if __name__ == "__main__":
    main()
