"""Day-ahead load forecast for smart meters: 4 days of half-hours in, next day out."""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn as nn

PAST, AHEAD = 192, 48


def household_load(meters, days, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(days * 48)
    hour = t % 48 / 2
    evening = np.exp(-0.5 * ((hour[None] - rng.uniform(17, 21, (meters, 1))) / 2) ** 2)
    morning = np.exp(-0.5 * ((hour[None] - rng.uniform(6, 9, (meters, 1))) / 1.2) ** 2)
    weekend = ((t // 48) % 7 >= 5)[None]
    base = rng.gamma(3, 0.1, (meters, 1))
    load = base + rng.gamma(2, 0.4, (meters, 1)) * evening + 0.5 * morning * (1 - 0.6 * weekend)
    temperature = 10 + 8 * np.sin(2 * np.pi * t / (48 * 60)) + 3 * np.sin(2 * np.pi * (hour - 9) / 24)
    load = load * (1 + 0.02 * (15 - temperature)[None]) + 0.08 * rng.standard_normal(load.shape)
    calendar = np.stack([np.sin(hour / 24 * 2 * np.pi), np.cos(hour / 24 * 2 * np.pi),
                         weekend[0].astype(float), (temperature - 10) / 8], 1)
    return (torch.from_numpy(load.astype(np.float32)), torch.from_numpy(calendar.astype(np.float32)))


class Windows:
    def __init__(self, load, calendar, seed):
        self.mean, self.std = load.mean(1, keepdim=True), load.std(1, keepdim=True)
        self.load, self.calendar = (load - self.mean) / self.std, calendar
        self.generator = torch.Generator().manual_seed(seed)
        self.span = torch.arange(PAST + AHEAD)

    def sample(self, size):
        meter = torch.randint(0, len(self.load), (size, 1), generator=self.generator)
        start = torch.randint(0, self.load.shape[1] - PAST - AHEAD, (size, 1), generator=self.generator)
        pick = start + self.span
        series, calendar = self.load[meter, pick], self.calendar[pick]
        past = torch.cat([series[:, :PAST, None], calendar[:, :PAST]], 2)
        return past, calendar[:, PAST:], series[:, PAST:]


class Forecaster(nn.Module):
    """Recurrent summary of the past, attention over it from every hour ahead."""

    def __init__(self, inputs=5, known=4, hidden=64):
        super().__init__()
        self.rnn = nn.LSTM(inputs, hidden, batch_first=True)
        self.query = nn.Linear(known + hidden, hidden)
        self.out = nn.Sequential(nn.Linear(2 * hidden, 64), nn.ReLU(), nn.Linear(64, 1))
        self.hidden = hidden

    def encode(self, past):
        outputs, _ = self.rnn(past)
        return outputs, outputs[:, -1]

    def forward(self, past, known):
        memory, last = self.encode(past)
        last = last[:, None].expand(-1, known.shape[1], -1)
        q = self.query(torch.cat([known, last], 2))
        weight = torch.softmax(q @ memory.transpose(1, 2) / self.hidden ** 0.5, 2)
        return self.out(torch.cat([weight @ memory, q], 2)).squeeze(2)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(5)

    windows = Windows(*household_load(300, 90, seed=1), seed=2)
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    lossf = nn.HuberLoss(delta=1.0)

    durations = []
    for step in range(args.steps):
        begin = time.perf_counter()
        past, known, target = windows.sample(args.batch)
        loss = lossf(model(past, known), target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        durations.append(time.perf_counter() - begin)
        if (step + 1) % 20 == 0:
            print(f"{step + 1:5d}  huber {loss.item():.5f}")

    model.eval()
    with torch.inference_mode():
        past, known, target = windows.sample(256)
        print(f"check huber {lossf(model(past, known), target).item():.4f}")
    print(f"step_ms: {1e3 * statistics.median(durations[max(3, len(durations) // 10):]):.1f}")


if __name__ == "__main__":
    main()
