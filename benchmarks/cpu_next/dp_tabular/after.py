"""Differentially private training (DP-SGD) of a credit-risk model."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

FIELDS = [12, 7, 31, 5, 52]
NUMERIC = 18


class RiskModel(nn.Module):
    def __init__(self, width=320, emb=8):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(n, emb) for n in FIELDS)
        self.body = nn.Sequential(
            nn.Linear(NUMERIC + emb * len(FIELDS), width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, 1),
        )

    def forward(self, numeric, fields):
        parts = [table(fields[:, i]) for i, table in enumerate(self.emb)]
        return self.body(torch.cat([numeric, *parts], 1)).squeeze(1)


def load_table(rows, seed):
    rng = np.random.default_rng(seed)
    numeric = rng.normal(size=(rows, NUMERIC)).astype(np.float32)
    fields = np.stack([rng.integers(0, n, rows) for n in FIELDS], 1)
    score = numeric[:, 0] - numeric[:, 3] * numeric[:, 5] + 0.2 * (fields[:, 0] - 6)
    target = (score + rng.normal(0, 0.5, rows) > 0).astype(np.float32)
    return torch.from_numpy(numeric), torch.from_numpy(fields), torch.from_numpy(target)


def sample_loss(params, model, numeric, fields, target):
    logit = functional_call(model, params, (numeric.unsqueeze(0), fields.unsqueeze(0)))
    return F.binary_cross_entropy_with_logits(logit, target.unsqueeze(0))


def per_sample_grads(model, params, batch):
    """Returns a dict: name -> gradients stacked along the sample axis."""
    gradient = vmap(grad(sample_loss), in_dims=(None, None, 0, 0, 0))
    return gradient(params, model, *batch)


def clip_and_sum(grads, max_norm):
    norms = sum(g.flatten(1).pow(2).sum(1) for g in grads.values()).sqrt()
    scale = (max_norm / (norms + 1e-6)).clamp(max=1.0)
    return {name: torch.tensordot(scale, g, dims=1) for name, g in grads.items()}


def noisy_update(params, summed, batch_size, lr, sigma, max_norm, gen):
    for name, p in params.items():
        noise = torch.randn(p.shape, generator=gen) * sigma * max_norm
        p.sub_(lr * (summed[name] + noise) / batch_size)


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--steps", type=int, default=60)
    cli.add_argument("--batch", type=int, default=32)
    cli.add_argument("--clip", type=float, default=1.0)
    cli.add_argument("--sigma", type=float, default=0.6)
    args = cli.parse_args()

    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(2)
    table = load_table(20000, 5)
    model = RiskModel()
    params = {k: v.detach() for k, v in model.named_parameters()}

    began = time.perf_counter()
    for step in range(args.steps):
        if step == 5:
            began = time.perf_counter()
        idx = torch.randint(len(table[0]), (args.batch,), generator=gen)
        batch = tuple(col[idx] for col in table)
        grads = per_sample_grads(model, params, batch)
        summed = clip_and_sum(grads, args.clip)
        noisy_update(params, summed, args.batch, 0.5, args.sigma, args.clip, gen)
        if (step + 1) % 20 == 0:
            with torch.no_grad():
                logit = functional_call(model, params, (table[0][:2000], table[1][:2000]))
                nll = F.binary_cross_entropy_with_logits(logit, table[2][:2000])
            print(f"step {step + 1}: nll {nll.item():.4f}")
    mean = (time.perf_counter() - began) / max(1, args.steps - 5)
    print(f"mean step {mean * 1000:.2f} ms")


if __name__ == "__main__":
    main()
