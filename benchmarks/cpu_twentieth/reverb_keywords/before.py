"""Keyword spotting with room-reverberation augmentation and a log-spectrogram CNN."""
import argparse
import json
import math
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

RATE = 16000
SAMPLES = 16000
TAPS = 8000          # half a second of room
WORDS = 8
BATCH = 16


class Utterances:
    """Synthetic keywords: every word is its own sequence of three gliding tones."""

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)
        self.notes = torch.rand(WORDS, 3, generator=self.rng) * 1500 + 200

    def batch(self, size):
        words = torch.randint(0, WORDS, (size,), generator=self.rng)
        pitch = self.notes[words] * (0.9 + 0.2 * torch.rand(size, 1, generator=self.rng))
        track = F.interpolate(pitch.unsqueeze(1), SAMPLES, mode="linear", align_corners=True).squeeze(1)
        wave = torch.sin(torch.cumsum(2 * math.pi * track / RATE, dim=1))
        envelope = torch.hann_window(SAMPLES)
        noise = 0.05 * torch.randn(size, SAMPLES, generator=self.rng)
        return wave * envelope + noise, words


class RoomBank:
    """A bank of exponentially decaying impulse responses, one picked per utterance."""

    def __init__(self, n, seed):
        self.rng = torch.Generator().manual_seed(seed)
        t = torch.arange(TAPS) / RATE
        rt60 = 0.08 + 0.3 * torch.rand(n, 1, generator=self.rng)
        self.responses = torch.randn(n, TAPS, generator=self.rng) * torch.exp(-6.9 * t / rt60)
        self.responses[:, 0] += 4.0
        self.responses /= self.responses.norm(dim=1, keepdim=True)

    def pick(self, size):
        return self.responses[torch.randint(0, len(self.responses), (size,), generator=self.rng)]


def reverberate(wave, room):
    """Convolves each utterance with its own room response, cut to the input's length."""
    padded = F.pad(wave, (room.shape[1] - 1, 0))
    wet = F.conv1d(padded.unsqueeze(0), room.flip(1).unsqueeze(1), groups=len(wave))
    return wet.squeeze(0)


class LogSpectrogram(nn.Module):
    def __init__(self, n_fft=512, hop=200):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        return torch.log(spec.abs().square() + 1e-4).unsqueeze(1)


class KeywordNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = LogSpectrogram()
        self.body = nn.Sequential(
            nn.BatchNorm2d(1),
            nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 48, 3, stride=2, padding=1), nn.BatchNorm2d(48), nn.ReLU(),
        )
        self.head = nn.Linear(48, WORDS)

    def forward(self, wave):
        return self.head(self.body(self.front(wave)).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = Utterances(seed=1)
    rooms = RoomBank(64, seed=2)
    model = KeywordNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        wave, words = data.batch(BATCH)
        wave = reverberate(wave, rooms.pick(BATCH))
        wave = wave / wave.abs().amax(1, keepdim=True)
        loss = F.cross_entropy(model(wave), words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.5f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
