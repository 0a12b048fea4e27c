"""Bird call detector, few recordings per species.

One pass over the small training set per iteration, then the decision thresholds are
checked on held-out clips every ten passes.
"""
import argparse
import math
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

RATE = 16000
SPECIES = 6


def synth_clips(folder: Path, count: int, seed: int):
    rng = np.random.default_rng(seed)
    t = np.arange(2 * RATE) / RATE
    labels = []
    for n in range(count):
        k = n % SPECIES
        f0, sweep, trill = 1500 + 700 * k, 300 * (k - 2), 4 + 3 * k
        phase = 2 * np.pi * (f0 * t + 0.5 * sweep * t ** 2)
        envelope = 0.5 * (1 + np.sign(np.sin(2 * np.pi * trill * t + rng.uniform(0, 6))))
        wave = 0.4 * np.sin(phase) * envelope + 0.2 * rng.standard_normal(t.size)
        np.save(folder / f"clip_{n:04d}.npy", (wave * 12000).astype(np.int16))
        labels.append(k)
    return sorted(folder.glob("clip_*.npy")), labels


class Clips(Dataset):
    """Random second out of each clip, with a random playback speed and background."""

    def __init__(self, files, labels, train):
        self.files, self.labels, self.train = files, labels, train

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        raw = np.load(self.files[i]).astype(np.float32) / 32768
        if not self.train:
            return torch.from_numpy(raw[RATE // 2:RATE // 2 + RATE].copy()), self.labels[i]
        speed, start, level = torch.rand(3).tolist()
        speed = 0.9 + 0.2 * speed
        first = int(start * (len(raw) - RATE * speed - 1))
        grid = first + np.arange(RATE, dtype=np.float32) * speed
        wave = torch.from_numpy(np.interp(grid, np.arange(len(raw)), raw).astype(np.float32))
        return wave + 0.05 * level * torch.randn(RATE), self.labels[i]


def mel_matrix(n_fft, bands):
    edges = 700 * (10 ** (torch.linspace(0, 2595 * math.log10(1 + RATE / 2 / 700), bands + 2) / 2595) - 1)
    freqs = torch.linspace(0, RATE / 2, n_fft // 2 + 1)
    up = (freqs[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - freqs[None]) / (edges[2:] - edges[1:-1])[:, None]
    return torch.minimum(up, down).clamp_(min=0)


class CallNet(nn.Module):
    def __init__(self, n_fft=512, bands=40, width=16):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("mel", mel_matrix(n_fft, bands))
        self.conv = nn.Sequential(
            nn.Conv2d(1, width, 3, (2, 2), 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.BatchNorm2d(2 * width), nn.ReLU())
        self.out = nn.Linear(2 * width, SPECIES)

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, 256, window=self.window, return_complex=True)
        logmel = torch.log(self.mel @ spec.abs().square() + 1e-5)
        return self.out(self.conv(logmel[:, None]).mean((2, 3)))


def train_pass(model, opt, dataset, batch):
    loader = DataLoader(dataset, batch, shuffle=True, num_workers=2)
    model.train()
    total = 0.0
    for wave, label in loader:
        loss = F.cross_entropy(model(wave), label, label_smoothing=0.05)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.item() * len(label)
    return total / len(dataset)


@torch.inference_mode()
def accuracy(model, held_out):
    model.eval()
    wave, label = held_out
    return (model(wave).argmax(1) == label).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60, help="passes over the training clips")
    ap.add_argument("--batch", type=int, default=24)
    args = ap.parse_args()
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as tmp:
        train_dir, test_dir = Path(tmp, "train"), Path(tmp, "test")
        train_dir.mkdir(), test_dir.mkdir()
        train = Clips(*synth_clips(train_dir, 48, 5), train=True)
        test = Clips(*synth_clips(test_dir, 36, 6), train=False)
        held_out = torch.utils.data.default_collate([test[i] for i in range(len(test))])
        model = CallNet()
        opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
        times = []
        for step in range(args.steps):
            t0 = time.perf_counter()
            loss = train_pass(model, opt, train, args.batch)
            times.append(time.perf_counter() - t0)
            if (step + 1) % 10 == 0:
                print(f"pass {step + 1}: loss {loss:.4f}  held-out {accuracy(model, held_out):.3f}")
    print(f"step_ms: {1e3 * statistics.median(times[max(3, len(times) // 10):]):.1f}")


if __name__ == "__main__":
    main()
