"""Survival from longitudinal lab values: GRU encoder trained with the Cox partial likelihood."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn

N_VISITS, N_LABS, N_STATIC = 6, 16, 10
COHORT = 20000
BATCH = 2048


class Cohort:
    """Simulated patients with proportional hazards and administrative censoring."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        rng = self.rng
        level = rng.normal(0, 1, (COHORT, 1, N_LABS))
        trend = rng.normal(0, 0.3, (COHORT, 1, N_LABS))
        visit = np.arange(N_VISITS).reshape(1, -1, 1) / N_VISITS
        labs = level + trend * visit + rng.normal(0, 0.3, (COHORT, N_VISITS, N_LABS))
        static = rng.normal(0, 1, (COHORT, N_STATIC))
        log_hazard = (
            0.8 * np.tanh(level[:, 0, 0] + level[:, 0, 1])
            + 1.5 * trend[:, 0, 2] - 0.5 * static[:, 0] + 0.4 * static[:, 1] * static[:, 2]
        )
        time_to_event = rng.exponential(np.exp(-log_hazard))
        censoring = rng.uniform(0.2, 3.0, COHORT)
        self.labs = labs.astype(np.float32)
        self.static = static.astype(np.float32)
        self.time = np.minimum(time_to_event, censoring)
        self.event = (time_to_event <= censoring).astype(np.float32)

    def batch(self, size):
        rows = self.rng.choice(COHORT, size, replace=False)
        arrays = (self.labs, self.static, self.time, self.event)
        return [torch.from_numpy(a[rows]) for a in arrays]


class RiskModel(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.gru = nn.GRU(N_LABS, hidden, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(hidden + N_STATIC, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))

    def forward(self, labs, static):
        _, last = self.gru(labs)
        return self.mlp(torch.cat([last[0], static], 1)).squeeze(1)


def cox_loss(risk, times, events):
    """Negative log partial likelihood; a patient's risk set is everyone still under observation."""
    at_risk = times.unsqueeze(0) >= times.unsqueeze(1)
    scores = risk.unsqueeze(0).masked_fill(~at_risk, float("-inf"))
    log_denominator = torch.logsumexp(scores, dim=1)
    return -((risk - log_denominator) * events).sum() / events.sum()


@torch.no_grad()
def concordance(risk, times, events, rng, pairs=4000):
    """Concordance estimated from random comparable pairs."""
    i = torch.from_numpy(rng.integers(0, len(risk), pairs))
    j = torch.from_numpy(rng.integers(0, len(risk), pairs))
    comparable = (times[i] < times[j]) & (events[i] > 0)
    good = (risk[i] > risk[j])[comparable]
    return good.float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    args = parser.parse_args()

    torch.manual_seed(0)
    cohort = Cohort(seed=0)
    model = RiskModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.995)
    pair_rng = np.random.default_rng(5)

    durations = []
    c_index = 0.5
    for step in range(args.steps):
        t0 = time.perf_counter()
        labs, static, times, events = cohort.batch(BATCH)
        risk = model(labs, static)
        loss = cox_loss(risk, times, events)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        scheduler.step()
        c_index = 0.9 * c_index + 0.1 * concordance(risk, times, events, pair_rng)
        durations.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.5f} c-index {c_index:.4f}", file=sys.stderr)

    timed = durations[5:] or durations
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
