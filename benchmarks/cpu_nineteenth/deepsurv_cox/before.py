"""DeepSurv: neural Cox proportional hazards on a patient cohort."""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn as nn

N_PATIENTS = 12_000
N_FEATURES = 48
BATCH = 3000


class Cohort:
    """Simulated cohort: Weibull survival times in whole days, random censoring."""

    def __init__(self, n, n_features, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, n_features, generator=self.gen)
        weights = torch.randn(n_features, generator=self.gen) / n_features ** 0.5
        risk = self.x @ weights + 0.5 * self.x[:, 0] * self.x[:, 1]
        u = torch.rand(n, generator=self.gen).clamp_min(1e-6)
        survival = 900.0 * (-u.log() * (-risk).exp()) ** (1 / 1.4)
        censor = 2000.0 * torch.rand(n, generator=self.gen)
        self.event = (survival <= censor).float()
        self.time = torch.minimum(survival, censor).ceil()

    def batch(self, size):
        idx = torch.randint(0, len(self.time), (size,), generator=self.gen)
        return self.x[idx], self.time[idx], self.event[idx]


class RiskNet(nn.Module):
    def __init__(self, n_features, hidden=192):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_features, hidden), nn.SELU(),
            nn.Linear(hidden, hidden), nn.SELU(),
            nn.Linear(hidden, hidden), nn.SELU(),
            nn.Linear(hidden, 1, bias=False),
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


def cox_loss(log_hazard, duration, event):
    """Negative partial log-likelihood, Breslow handling of ties."""
    at_risk = duration[None, :] >= duration[:, None]     # row i: patients at risk at time i
    scores = log_hazard[None, :].masked_fill(~at_risk, float("-inf"))
    log_risk = torch.logsumexp(scores, dim=1)
    return -((log_hazard - log_risk) * event).sum() / event.sum()


@torch.no_grad()
def concordance(log_hazard, duration, event, n_pairs=20_000):
    """Concordance index estimated on random comparable pairs."""
    i = torch.arange(n_pairs) % len(duration)
    j = (i * 7 + 13) % len(duration)
    usable = (duration[i] < duration[j]) & (event[i] > 0)
    good = log_hazard[i] > log_hazard[j]
    return (good & usable).sum().item() / max(1, usable.sum().item())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    cohort = Cohort(N_PATIENTS, N_FEATURES, seed=0)
    model = RiskNet(N_FEATURES)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        x, duration, event = cohort.batch(BATCH)
        log_hazard = model(x)
        loss = cox_loss(log_hazard, duration, event)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        c_index = concordance(log_hazard, duration, event)
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.6f} c-index {c_index:.4f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
