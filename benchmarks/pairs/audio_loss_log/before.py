"""Train a raw-waveform classifier, with noise mixed in as the batches are drawn."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def conv(inside, outside, stride):
    return nn.Sequential(
        nn.Conv1d(inside, outside, 9, stride, 4, bias=False), nn.BatchNorm1d(outside), nn.ReLU(inplace=True)
    )


def build(width, classes):
    return nn.Sequential(
        nn.Conv1d(1, width, 80, 4, 38),
        nn.BatchNorm1d(width),
        nn.ReLU(inplace=True),
        conv(width, width, 1),
        conv(width, 2 * width, 4),
        conv(2 * width, 2 * width, 1),
        conv(2 * width, 4 * width, 4),
        conv(4 * width, 4 * width, 1),
        conv(4 * width, 8 * width, 4),
        conv(8 * width, 8 * width, 1),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


def draw(rng, clips, noise, batch):
    length = clips.shape[1]
    mixed = np.empty((batch, 1, length), dtype=np.float32)
    picks = rng.integers(0, len(clips), batch)
    for row, pick in enumerate(picks):
        start = rng.integers(0, len(noise) - length)
        mixed[row, 0] = clips[pick] * rng.uniform(0.5, 1.0) + noise[start : start + length] * rng.uniform(0.0, 0.3)
    np.clip(mixed, -1.0, 1.0, out=mixed)
    return mixed, picks % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rng = np.random.default_rng(0)
    batch, length, width = (4, 4000, 4) if args.small else (64, 64000, 64)

    clips = rng.uniform(-1, 1, (128, length)).astype(np.float32)
    noise = rng.uniform(-1, 1, 20 * length).astype(np.float32)
    model = build(width, 10).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    running = 0.0
    for step in range(WARMUP + args.steps):
        waves, labels = draw(rng, clips, noise, batch)
        x, y = torch.from_numpy(waves), torch.from_numpy(labels)
        if device.type == "cuda":
            x, y = x.pin_memory(), y.pin_memory()
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {running / 50:.4f}")
            running = 0.0
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
