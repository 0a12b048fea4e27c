"""Train a recognizer of spoken commands on log-mel spectrograms with SpecAugment."""

import argparse
import json
import math
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10
RATE = 16000


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def mel_filters(bins, mels):
    top = 2595 * math.log10(1 + RATE / 2 / 700)
    points = 700 * (10 ** (torch.linspace(0, top, mels + 2) / 2595) - 1)
    frequencies = torch.linspace(0, RATE / 2, bins)
    rise = (frequencies - points[:-2, None]) / (points[1:-1] - points[:-2])[:, None]
    fall = (points[2:, None] - frequencies) / (points[2:] - points[1:-1])[:, None]
    return torch.minimum(rise, fall).clamp(min=0)


class LogMel(nn.Module):
    def __init__(self, mels, size=512, hop=160):
        super().__init__()
        self.size, self.hop = size, hop
        self.register_buffer("window", torch.hann_window(size))
        self.register_buffer("filters", mel_filters(size // 2 + 1, mels))

    def forward(self, waves):
        spectrum = torch.stft(waves, self.size, self.hop, window=self.window, return_complex=True)
        mel = torch.log(self.filters @ spectrum.abs().square() + 1e-6)
        return (mel - mel.mean((1, 2), keepdim=True)) / mel.std((1, 2), keepdim=True)


class SpecAugment(nn.Module):
    """Blanks random bands of frequencies and stretches of time of each recording."""

    def __init__(self, bands=2, band=20, stretches=2, stretch=25):
        super().__init__()
        self.bands, self.band = bands, band
        self.stretches, self.stretch = stretches, stretch

    def mask(self, spectrum, limit, axis):
        size = spectrum.shape[axis]
        width = torch.rand(1, device=spectrum.device) * min(limit, size // 2)
        start = torch.rand(1, device=spectrum.device) * (size - width)
        place = torch.arange(size, device=spectrum.device)
        hidden = (place >= start.long()) & (place < (start + width).long())
        return spectrum.masked_fill(hidden.unsqueeze(1) if axis == -2 else hidden, 0.0)

    def augment(self, spectrum):
        for _ in range(self.bands):
            spectrum = self.mask(spectrum, self.band, -2)
        for _ in range(self.stretches):
            spectrum = self.mask(spectrum, self.stretch, -1)
        return spectrum

    def forward(self, spectra):
        if not self.training:
            return spectra
        return torch.stack([self.augment(spectrum) for spectrum in spectra])


class CommandNet(nn.Module):
    def __init__(self, mels, width, classes):
        super().__init__()
        self.features, self.augment = LogMel(mels), SpecAugment()
        self.conv = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
        )
        self.gru = nn.GRU(2 * width * (mels // 4), 4 * width, 2, batch_first=True, bidirectional=True)
        self.score = nn.Linear(8 * width, 1)
        self.head = nn.Linear(8 * width, classes)

    def forward(self, waves):
        with torch.no_grad():
            spectra = self.augment(self.features(waves))
        x = self.conv(spectra.unsqueeze(1)).flatten(1, 2).transpose(1, 2)
        x, _ = self.gru(x)
        attention = self.score(x).softmax(1)
        return self.head((attention * x).sum(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, length, mels, width = (4, 4000, 16, 4) if args.small else (64, RATE, 64, 64)

    model = CommandNet(mels, width, 35).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    waves = torch.randn(16, batch, length, device=device)
    labels = torch.randint(35, (16, batch), device=device)
    for step in range(WARMUP + args.steps):
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = model(waves[step % 16])
        loss = F.cross_entropy(logits.float(), labels[step % 16])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(f"last loss {loss.item():.4f}")
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
