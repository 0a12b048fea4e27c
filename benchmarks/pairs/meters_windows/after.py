"""Train a patch transformer to forecast electricity meters from a week of hourly readings."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Meters(Dataset):
    """Windows over the readings: history and known calendar in, the next day out."""

    def __init__(self, meters, hours, history, ahead):
        generator = np.random.default_rng(0)
        clock = np.arange(hours, dtype=np.float32)
        noise = generator.standard_normal((meters, hours, 4), dtype=np.float32)
        self.readings = noise + np.sin(clock * (2 * np.pi / 24))[None, :, None].astype(np.float32)
        day, week = clock * (2 * np.pi / 24), clock * (2 * np.pi / 168)
        self.calendar = np.stack([np.sin(day), np.cos(day), np.sin(week), np.cos(week)], 1)
        self.history, self.ahead = history, ahead
        self.windows = hours - history - ahead

    def __len__(self):
        return len(self.readings) * self.windows

    def __getitem__(self, index):
        meter, begin = divmod(index, self.windows)
        middle, end = begin + self.history, begin + self.history + self.ahead
        past = np.concatenate([self.readings[meter, begin:middle], self.calendar[begin:middle]], 1)
        return {"meter": meter, "past": past, "future": self.readings[meter, middle:end]}


def collate(samples):
    return {
        "meter": torch.tensor([sample["meter"] for sample in samples]),
        "past": torch.from_numpy(np.stack([sample["past"] for sample in samples])),
        "future": torch.from_numpy(np.stack([sample["future"] for sample in samples])),
    }


class Forecaster(nn.Module):
    def __init__(self, meters, history, ahead, patch, width, depth, heads):
        super().__init__()
        self.patch, self.ahead = patch, ahead
        self.meter = nn.Embedding(meters, width)
        self.embed = nn.Linear(patch * 8, width)
        self.place = nn.Parameter(torch.randn(history // patch, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(history // patch * width, ahead * 4)

    def forward(self, meter, past):
        mean, spread = past[..., :4].mean(1, keepdim=True), past[..., :4].std(1, keepdim=True) + 1e-5
        x = torch.cat([(past[..., :4] - mean) / spread, past[..., 4:]], -1)
        x = self.embed(x.unflatten(1, (-1, self.patch)).flatten(2))
        x = self.encoder(x + self.place + self.meter(meter).unsqueeze(1))
        return self.head(x.flatten(1)).unflatten(1, (self.ahead, 4)) * spread + mean


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    meters, hours, batch, width, depth = (4, 600, 8, 32, 1) if args.small else (300, 4000, 128, 256, 4)
    history, ahead, patch = 168, 24, 12

    loader = DataLoader(
        Meters(meters, hours, history, ahead), batch, shuffle=True, collate_fn=collate,
        pin_memory=device.type == "cuda", drop_last=True,
    )
    model = Forecaster(meters, history, ahead, patch, width, depth, 8).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=device.type == "cuda")
    model.train()
    for step, sample in enumerate(loader):
        sample = {name: value.to(device, non_blocking=True) for name, value in sample.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            forecast = model(sample["meter"], sample["past"])
        loss = F.huber_loss(forecast.float(), sample["future"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step + 1 == WARMUP:
            begin = now(device)
        if step + 1 == WARMUP + args.steps:
            break
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(f"last loss {loss.item():.4f}")
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
