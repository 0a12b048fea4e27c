"""Score machine telemetry with a convolutional autoencoder (anomaly detection).

Windows are scored batch by batch; a window is flagged when its reconstruction
error exceeds a threshold taken from the first, healthy part of the log.
"""
import argparse
import logging
import os
import statistics
import time

import numpy as np
import pandas as pd
import torch
from torch import nn

log = logging.getLogger("anomaly")


def load_telemetry(rows, sensors, seed):
    """Stand-in for pd.read_csv(...): drifting periodic signals with faults."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows)[:, None]
    period = rng.uniform(20, 200, sensors)
    phase = rng.uniform(0, 6.28, sensors)
    x = np.sin(2 * np.pi * t / period + phase) + rng.normal(0, 0.1, (rows, sensors))
    for start in rng.integers(rows // 4, rows - 200, 30):
        x[start:start + 100, rng.integers(0, sensors)] += rng.uniform(1.5, 3.0)
    return pd.DataFrame(x, columns=[f"s{i:02d}" for i in range(sensors)])


def make_windows(frame, length, stride):
    values = frame.to_numpy()
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    view = np.lib.stride_tricks.sliding_window_view(values, length, axis=0)
    return torch.from_numpy(np.ascontiguousarray(view[::stride]))


class ConvAutoencoder(nn.Module):
    def __init__(self, sensors, width=48, code=16):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(sensors, width, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(width, code, 3, padding=1),
        )
        self.decoder = nn.Sequential(
            nn.Conv1d(code, width, 3, padding=1), nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv1d(width, sensors, 7, padding=3),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


@torch.no_grad()
def score(model, batch):
    """Mean squared reconstruction error of every window."""
    return (model(batch) - batch).pow(2).mean(dim=(1, 2))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--weights", help="state dict of the trained autoencoder")
    ap.add_argument("--sensors", type=int, default=24)
    ap.add_argument("--window", type=int, default=128)
    ap.add_argument("--stride", type=int, default=16)
    ap.add_argument("--batch-size", type=int, default=384)
    ap.add_argument("--quantile", type=float, default=0.99)
    ap.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 150)))
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(21)

    frame = load_telemetry(60_000, args.sensors, seed=21)
    windows = make_windows(frame, args.window, args.stride)
    model = ConvAutoencoder(args.sensors).double().eval()
    if args.weights:
        model.load_state_dict(torch.load(args.weights, map_location="cpu"))
    batches = windows.split(args.batch_size)
    log.info("%d windows in %d batches", len(windows), len(batches))

    times, scores = [], []
    for n in range(args.steps):
        batch = batches[n % (len(batches) - 1)]  # last one is short
        start = time.perf_counter()
        scores.append(score(model, batch))
        times.append(time.perf_counter() - start)
    scores = torch.cat(scores[: len(batches) - 1])
    healthy = scores[: max(1, len(scores) // 4)]
    threshold = torch.quantile(healthy, args.quantile)
    flagged = (scores > threshold).sum().item()
    log.info("threshold %.6f", threshold.item())
    print(f"mean score {scores.mean().item():.7f} flagged {flagged}")
    print(f"step {statistics.median(times[5:]) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
