"""Day-ahead forecast of hourly electricity load with a Transformer over patches of hours."""
import argparse
import math
from datetime import datetime, timezone

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

HOUR = 3600


def calendar(stamp):
    """Calendar features of an hour: time of day, of week and of year, and whether people work."""
    when = datetime.fromtimestamp(stamp, tz=timezone.utc)
    day = 2 * math.pi * when.hour / 24
    week = 2 * math.pi * when.weekday() / 7
    year = 2 * math.pi * when.timetuple().tm_yday / 366
    return [math.sin(day), math.cos(day), math.sin(week), math.cos(week), math.sin(year), math.cos(year),
            1.0 if when.weekday() < 5 and 7 <= when.hour < 18 else 0.0]


def make_series(hours, seed=0):
    gen = torch.Generator().manual_seed(seed)
    t = torch.arange(hours, dtype=torch.float32)
    load = 1.0 + 0.4 * torch.sin(2 * math.pi * t / 24) + 0.2 * torch.sin(2 * math.pi * t / 168)
    load += 0.3 * torch.sin(2 * math.pi * t / 8766) + 0.05 * torch.randn(hours, generator=gen)
    stamps = torch.arange(hours) * HOUR + 1_600_000_000
    return stamps, load


class Windows(Dataset):
    """A week of load and calendar, the calendar of the day after it, and that day's load."""

    def __init__(self, stamps, load, past=168, future=24):
        self.past, self.future = past, future
        self.marks = torch.tensor([calendar(stamp) for stamp in stamps.tolist()])
        self.load = (load - load.mean()) / load.std()

    def __len__(self):
        return len(self.load) - self.past - self.future + 1

    def __getitem__(self, i):
        cut, end = i + self.past, i + self.past + self.future
        return self.load[i:cut], self.marks[i:cut], self.marks[cut:end], self.load[cut:end]


class Forecaster(nn.Module):
    def __init__(self, past=168, future=24, patch=4, marks=7, width=96, layers=3, heads=4):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch * (1 + marks), width)
        self.places = nn.Parameter(0.02 * torch.randn(past // patch, width))
        layer = nn.TransformerEncoderLayer(width, heads, 3 * width, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.summary = nn.Linear(width * (past // patch), width)
        self.head = nn.Sequential(nn.Linear(width + marks, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, past, past_marks, future_marks):
        mean = past.mean(1, keepdim=True)
        x = torch.cat([(past - mean).unsqueeze(-1), past_marks], dim=-1)
        x = self.embed(x.unflatten(1, (-1, self.patch)).flatten(2)) + self.places
        x = self.summary(self.layers(x).flatten(1))
        x = x.unsqueeze(1).expand(-1, future_marks.size(1), -1)
        return self.head(torch.cat([x, future_marks], dim=-1)).squeeze(-1) + mean


def batches(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--hours", type=int, default=12000)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = Windows(*make_series(args.hours))
    sampler = RandomSampler(data, generator=torch.Generator().manual_seed(1))
    loader = DataLoader(data, args.batch_size, sampler=sampler, drop_last=True)
    model = Forecaster()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=max(args.steps, 2) + 1)
    total = torch.zeros(())
    stream = batches(loader)
    for _ in range(args.steps):
        past, past_marks, future_marks, target = next(stream)
        loss = F.smooth_l1_loss(model(past, past_marks, future_marks), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.detach()
    print(f"mean loss {total.item() / args.steps:.6f}")


if __name__ == "__main__":
    main()
