"""Train a vocoder: from mel frames to a waveform."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Snake(nn.Module):
    def __init__(self, channels):
        super().__init__()
        frequencies = [1.0 + 0.5 * channel / channels for channel in range(channels)]
        self.register_buffer("frequencies", torch.tensor(frequencies).view(1, -1, 1))

    def forward(self, x):
        return x + torch.sin(self.frequencies * x) ** 2 / self.frequencies


class Residual(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.snake1, self.snake2 = Snake(channels), Snake(channels)
        self.conv1 = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)
        self.conv2 = nn.Conv1d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.conv2(self.snake2(self.conv1(self.snake1(x))))


class Vocoder(nn.Module):
    def __init__(self, bands, width, stages):
        super().__init__()
        layers = [nn.Conv1d(bands, width, 7, padding=3)]
        for _ in range(stages):
            layers += [Snake(width), nn.ConvTranspose1d(width, width // 2, 8, 4, 2)]
            width //= 2
            layers += [Residual(width, dilation) for dilation in (1, 3, 5, 1, 3, 5)]
        self.layers = nn.Sequential(*layers, Snake(width), nn.Conv1d(width, 1, 7, padding=3))

    def forward(self, mel):
        return torch.tanh(self.layers(mel)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, frames, bands, width, stages = (2, 8, 8, 16, 2) if args.small else (4, 32, 80, 256, 4)

    mel = torch.randn(4 * batch, bands, frames, device=device)
    waves = torch.rand(4 * batch, frames * 4**stages, device=device) * 2 - 1
    model = Vocoder(bands, width, stages).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    for step in range(WARMUP + args.steps):
        picks = torch.randint(len(mel), (batch,), device=device)
        loss = F.l1_loss(model(mel[picks]), waves[picks])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
