# DeepSurv-style survival model on a synthetic patient cohort.
import argparse
import time

import numpy as np
import torch
from torch import nn

from after_survival import concordance_index, cox_ph_loss


def simulate_cohort(n, n_features, seed):
    """Exponential survival times with a non-linear risk and random censoring."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, n_features))
    linear = x[:, :10] @ rng.normal(scale=0.4, size=10)
    risk = linear + 0.5 * x[:, 10] * x[:, 11] - 0.4 * np.abs(x[:, 12])
    survival = rng.exponential(scale=60.0 * np.exp(-risk))
    censoring = rng.exponential(scale=90.0, size=n)
    duration = np.minimum(survival, censoring)
    event = (survival <= censoring).astype(np.int64)
    return x.astype(np.float32), duration.astype(np.float32), event


def standardize(train, other):
    mean = train.mean(axis=0)
    std = train.std(axis=0) + 1e-8
    return (train - mean) / std, (other - mean) / std


class DeepSurv(nn.Module):
    def __init__(self, n_features, hidden_sizes):
        super().__init__()
        layers = []
        size = n_features
        for hidden in hidden_sizes:
            layers += [nn.Linear(size, hidden), nn.BatchNorm1d(hidden), nn.SELU()]
            size = hidden
        layers.append(nn.Linear(size, 1, bias=False))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--eval-every", type=int, default=20)
    args = parser.parse_args()

    torch.manual_seed(2024)
    x, duration, event = simulate_cohort(14000, 80, seed=2024)
    n_train = 12000
    x_train, x_valid = standardize(x[:n_train], x[n_train:])
    x_train, x_valid = torch.from_numpy(x_train), torch.from_numpy(x_valid)
    duration, event = torch.from_numpy(duration), torch.from_numpy(event)
    d_train, d_valid = duration[:n_train], duration[n_train:]
    e_train, e_valid = event[:n_train], event[n_train:]
    print(f"{n_train} patients, {e_train.float().mean().item():.1%} events observed")

    model = DeepSurv(x_train.size(1), [768, 768, 384])
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)

    step_times = []
    step = 0
    while step < args.steps:
        order = torch.randperm(n_train)
        for first in range(0, n_train - args.batch_size + 1, args.batch_size):
            started = time.perf_counter()
            idx = order[first:first + args.batch_size]
            log_hazard = model(x_train[idx])
            loss = cox_ph_loss(log_hazard, d_train[idx], e_train[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step_times.append(time.perf_counter() - started)
            step += 1

            if step == 1 or step % 10 == 0:
                print(f"step {step}: loss {loss.item():.4f}")
            if step % args.eval_every == 0:
                model.eval()
                with torch.no_grad():
                    c = concordance_index(model(x_valid), d_valid, e_valid)
                model.train()
                print(f"step {step}: validation c-index {c:.4f}")
            if step == args.steps:
                break

    print(f"step_ms: {np.median(step_times) * 1000:.2f}")


if __name__ == "__main__":
    main()
