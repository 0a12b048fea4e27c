"""Keyword spotting with room-reverb augmentation on raw waveforms."""

import argparse
import json
import math
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLE_RATE = 8000
CLASSES = 10


def synth_batch(batch, generator):
    """One second of a two-tone 'word' per sample plus noise."""
    labels = torch.randint(0, CLASSES, (batch,), generator=generator)
    t = torch.arange(SAMPLE_RATE) / SAMPLE_RATE
    f0 = 200.0 + 60.0 * labels.float()
    f1 = 900.0 + 110.0 * labels.float()
    wave = torch.sin(2 * math.pi * f0[:, None] * t) + 0.5 * torch.sin(2 * math.pi * f1[:, None] * t)
    wave = wave * torch.hann_window(SAMPLE_RATE)
    return wave + 0.1 * torch.randn(wave.shape, generator=generator), labels


class Reverb:
    """Convolves the waveforms with a randomly chosen room impulse response."""

    def __init__(self, rooms=16, seconds=0.2, seed=3):
        g = torch.Generator().manual_seed(seed)
        n = int(seconds * SAMPLE_RATE)
        t = torch.arange(n) / SAMPLE_RATE
        rt60 = 0.05 + 0.15 * torch.rand(rooms, 1, generator=g)
        rirs = torch.randn(rooms, n, generator=g) * torch.exp(-6.9 * t / rt60)
        rirs[:, 0] = 1.0
        self.rirs = rirs / rirs.norm(dim=1, keepdim=True)
        self.generator = g

    def __call__(self, wave):
        pick = int(torch.randint(0, self.rirs.size(0), (1,), generator=self.generator))
        rir = self.rirs[pick]
        n = rir.numel()
        size = wave.size(1) + n - 1
        spectrum = torch.fft.rfft(wave, size) * torch.fft.rfft(rir, size)
        wet = torch.fft.irfft(spectrum, size)[:, : wave.size(1)]
        return wet / wet.abs().amax(dim=1, keepdim=True).clamp(min=1e-5)


class LogMel(nn.Module):
    def __init__(self, n_fft=256, hop=80, n_mels=40):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        freqs = torch.linspace(0, SAMPLE_RATE / 2, n_fft // 2 + 1)
        mel_max = 2595 * math.log10(1 + SAMPLE_RATE / 2 / 700)
        edges = 700 * (10 ** (torch.linspace(0, mel_max, n_mels + 2) / 2595) - 1)
        up = (freqs[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
        down = (edges[2:, None] - freqs[None]) / (edges[2:] - edges[1:-1])[:, None]
        self.register_buffer("bank", torch.minimum(up, down).clamp(min=0))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        return torch.log(self.bank @ spec.abs().pow(2) + 1e-6)


class KeywordNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.features = LogMel()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, width * 2, 3, padding=1),
            nn.BatchNorm2d(width * 2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.fc = nn.Linear(width * 2, CLASSES)

    def forward(self, wave):
        return self.fc(self.net(self.features(wave).unsqueeze(1)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(11)
    model = KeywordNet()
    reverb = Reverb()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        wave, labels = synth_batch(args.batch_size, generator)
        wave = reverb(wave)
        logits = model(wave)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - t0) * 1e3)
        if step % 10 == 9:
            acc = (logits.argmax(1) == labels).float().mean().item()
            print(f"[{step + 1:3d}] loss {loss.item():.3f} acc {acc:.2f}")
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
