"""Keyword spotting: log-mel features computed on the fly, small depthwise CNN."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLE_RATE = 16000
N_FFT = 2048
HOP = 256
N_MELS = 96
KEYWORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]
BATCH = 32


class Clips:
    """Synthetic one-second utterances: two gliding formants per keyword."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.formants = self.rng.uniform(250, 3000, (len(KEYWORDS), 2, 2))
        self.t = np.arange(SAMPLE_RATE) / SAMPLE_RATE
        self.bank = [self.synthesise(i % len(KEYWORDS)) for i in range(240)]

    def synthesise(self, label):
        pitch = self.rng.uniform(0.9, 1.1)
        wave = np.zeros(SAMPLE_RATE)
        for start, end in self.formants[label] * pitch:
            freq = start + (end - start) * self.t
            wave += np.sin(2 * np.pi * np.cumsum(freq) / SAMPLE_RATE)
        onset, length = self.rng.uniform(0.05, 0.3), self.rng.uniform(0.3, 0.6)
        wave *= np.exp(-((self.t - onset - length / 2) / (length / 2)) ** 4)
        return wave.astype(np.float32)

    def __getitem__(self, i):
        wave = np.roll(self.bank[i], int(self.rng.integers(-1600, 1600)))
        noise = self.rng.standard_normal(SAMPLE_RATE, dtype=np.float32)
        wave = wave + self.rng.uniform(0.05, 0.4) * noise
        return torch.from_numpy(wave.astype(np.float32)), i % len(KEYWORDS)

    def __len__(self):
        return len(self.bank)


def hz_to_mel(f):
    return 2595.0 * np.log10(1.0 + np.asarray(f) / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (np.asarray(m) / 2595.0) - 1.0)


def mel_filterbank(sr, n_fft, n_mels, fmin=20.0, fmax=None):
    """Triangular filters with area normalisation, shape (n_mels, n_fft // 2 + 1)."""
    fmax = fmax or sr / 2
    bins = np.linspace(0, sr / 2, n_fft // 2 + 1)
    edges = mel_to_hz(np.linspace(hz_to_mel(fmin), hz_to_mel(fmax), n_mels + 2))
    weights = np.zeros((n_mels, len(bins)), dtype=np.float32)
    for m in range(n_mels):
        left, centre, right = edges[m:m + 3]
        rising = (bins - left) / (centre - left)
        falling = (right - bins) / (right - centre)
        weights[m] = np.maximum(0, np.minimum(rising, falling))
        weights[m] *= 2.0 / (right - left)
    return torch.from_numpy(weights)


def log_mel(wave, sr=SAMPLE_RATE, n_fft=N_FFT, hop=HOP, n_mels=N_MELS):
    window = torch.hann_window(n_fft)
    spec = torch.stft(wave, n_fft, hop, window=window, return_complex=True)
    power = spec.abs().pow(2)
    mel = mel_filterbank(sr, n_fft, n_mels) @ power
    return torch.log(mel + 1e-6)


def collate(clips, rows):
    features, labels = [], []
    for i in rows:
        wave, label = clips[i]
        f = log_mel(wave)
        features.append((f - f.mean()) / (f.std() + 1e-5))
        labels.append(label)
    return torch.stack(features).unsqueeze(1), torch.tensor(labels)


class DSBlock(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.depth = nn.Conv2d(c_in, c_in, 3, stride, 1, groups=c_in, bias=False)
        self.point = nn.Conv2d(c_in, c_out, 1, bias=False)
        self.norm = nn.BatchNorm2d(c_out)

    def forward(self, x):
        return F.relu(self.norm(self.point(self.depth(x))))


class DSCNN(nn.Module):
    def __init__(self, n_classes, width=20):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, width, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.Sequential(
            DSBlock(width, width, 1), DSBlock(width, 32, 2), DSBlock(32, 32, 1), DSBlock(32, 48, 2))
        self.head = nn.Linear(48, n_classes)

    def forward(self, x):
        return self.head(F.dropout(self.blocks(self.stem(x)).mean((2, 3)), 0.1, self.training))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    torch.manual_seed(0)
    clips = Clips(seed=0)
    model = DSCNN(len(KEYWORDS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    order = np.random.default_rng(1)

    times = []
    accuracy = 0.0
    for step in range(args.steps):
        t0 = time.perf_counter()
        x, y = collate(clips, order.choice(len(clips), BATCH, replace=False))
        logits = model(x)
        loss = F.cross_entropy(logits, y, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        accuracy = 0.9 * accuracy + 0.1 * (logits.argmax(1) == y).float().mean().item()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.5f} acc {accuracy:.4f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
