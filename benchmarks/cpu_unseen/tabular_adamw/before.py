"""Credit default prediction with a deep residual MLP and AdamW."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["t"] = 0
                    state["m"] = torch.zeros_like(p)
                    state["v"] = torch.zeros_like(p)
                state["t"] += 1
                grad = p.grad
                state["m"] = beta1 * state["m"] + (1 - beta1) * grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * grad * grad
                m_hat = state["m"] / (1 - beta1 ** state["t"])
                v_hat = state["v"] / (1 - beta2 ** state["t"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * m_hat / (v_hat.sqrt() + group["eps"]))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.fc2(F.relu(self.fc1(self.norm(x))))


class CreditNet(nn.Module):
    def __init__(self, numeric, cardinalities, width=192, depth=28):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(c, 8) for c in cardinalities)
        self.stem = nn.Linear(numeric + 8 * len(cardinalities), width)
        self.blocks = nn.Sequential(*[Residual(width) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, numeric, categorical):
        parts = [e(categorical[:, i]) for i, e in enumerate(self.embeddings)]
        x = self.stem(torch.cat([numeric] + parts, dim=1))
        return self.head(self.blocks(x)).squeeze(1)


def make_applications(n=4096, numeric=20, cardinalities=(12, 50, 7, 30), seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, numeric, generator=g)
    cats = torch.stack([torch.randint(0, c, (n,), generator=g) for c in cardinalities], 1)
    risk = x[:, :5].sum(1) / math.sqrt(5) + 0.1 * (cats[:, 0] - 6)
    y = (risk + 0.3 * torch.randn(n, generator=g) > 0.5).float()
    return TensorDataset(x, cats, y), numeric, cardinalities


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(0)

    dataset, numeric, cardinalities = make_applications()
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = CreditNet(numeric, cardinalities)
    optimizer = AdamW(model.parameters(), lr=args.lr)
    step, start = 0, time.perf_counter()
    while step < args.steps:
        for x, cats, y in loader:
            if step == 5:
                start = time.perf_counter()
            loss = F.binary_cross_entropy_with_logits(model(x, cats), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 25 == 0:
                print(f"step {step}: loss {loss.item():.4f}")
            if step >= args.steps:
                break
    elapsed = time.perf_counter() - start
    print(f"final loss {loss.item():.5f}")
    print(f"mean step {1000 * elapsed / max(1, step - 5):.2f} ms")


if __name__ == "__main__":
    main()
