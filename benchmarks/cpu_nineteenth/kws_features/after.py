"""Keyword spotting: small depthwise-separable CNN over log-mel features."""
import argparse
import json
import math
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLE_RATE = 16_000
N_FFT = 512
HOP = 160
N_MELS = 40
N_WORDS = 12


def mel_filters(n_mels, n_fft, sample_rate):
    def to_mel(hz):
        return 2595.0 * math.log10(1.0 + hz / 700.0)

    mels = torch.linspace(to_mel(20.0), to_mel(sample_rate / 2), n_mels + 2)
    hz = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    freqs = torch.linspace(0, sample_rate / 2, n_fft // 2 + 1)
    up = (freqs[:, None] - hz[None, :-2]) / (hz[1:-1] - hz[:-2])
    down = (hz[None, 2:] - freqs[:, None]) / (hz[2:] - hz[1:-1])
    return torch.minimum(up, down).clamp(min=0)


def synth_utterances(n, labels, gen):
    t = torch.arange(SAMPLE_RATE) / SAMPLE_RATE
    base = 180.0 + 90.0 * labels.float()
    sweep = 1.0 + 0.3 * torch.rand(n, generator=gen)
    phase = 2 * math.pi * base[:, None] * t * (1.0 + (sweep[:, None] - 1.0) * t)
    return torch.sin(phase) + 0.3 * torch.randn(n, SAMPLE_RATE, generator=gen)


class SpeechCommands:
    """Holds log-mel features of the whole training set in memory."""

    def __init__(self, n, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, N_WORDS, (n,), generator=self.gen)
        filters = mel_filters(N_MELS, N_FFT, SAMPLE_RATE)
        window = torch.hann_window(N_FFT)
        feats = []
        for labels in self.labels.split(200):
            wave = synth_utterances(len(labels), labels, self.gen)
            spec = torch.stft(wave, N_FFT, HOP, window=window, return_complex=True)
            power = spec.abs().square().transpose(1, 2)
            feats.append((power @ filters + 1e-6).log())
        self.feats = torch.cat(feats)                    # N, frames, mels
        self.mean = self.feats.mean(dim=(0, 1))
        self.std = self.feats.std(dim=(0, 1))

    def normalise(self, x):
        return (x - self.mean) / (self.std + 1e-5)

    def spec_augment(self, x):
        t0 = int(torch.randint(0, x.shape[1] - 15, (1,), generator=self.gen))
        f0 = int(torch.randint(0, N_MELS - 6, (1,), generator=self.gen))
        x[:, t0:t0 + 15] = 0
        x[:, :, f0:f0 + 6] = 0
        return x

    def sample(self, batch_size):
        idx = torch.randint(0, len(self.labels), (batch_size,), generator=self.gen)
        x = self.normalise(self.feats[idx])
        return self.spec_augment(x).unsqueeze(1), self.labels[idx]


class SeparableBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        x = F.relu(self.norm1(self.depthwise(x)))
        return F.relu(self.norm2(self.pointwise(x)))


class DSCNN(nn.Module):
    def __init__(self, channels=48):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, (10, 4), stride=(2, 2), padding=(5, 1))
        self.blocks = nn.Sequential(*[SeparableBlock(channels) for _ in range(3)])
        self.head = nn.Linear(channels, N_WORDS)

    def forward(self, x):
        x = self.blocks(F.relu(self.stem(x)))
        return self.head(x.mean(dim=(2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = SpeechCommands(2000, seed=0)
    model = DSCNN()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        x, y = data.sample(48)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.6f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
