"""Keyword spotting with room simulation and noise mixed in on the fly."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

RATE = 8000


def make_clips(n, classes, gen):
    t = torch.arange(RATE) / RATE
    labels = torch.randint(0, classes, (n,), generator=gen)
    base = 180 + 90 * labels.float()[:, None]
    sweep = 1 + 0.3 * torch.rand(n, 1, generator=gen) * t
    phase = 2 * math.pi * base * sweep * t
    clips = torch.sin(phase) + 0.5 * torch.sin(2.7 * phase)
    return clips * torch.hann_window(RATE) * 0.3, labels


def make_rooms(n, taps, gen):
    """Impulse responses: exponentially decaying noise behind a direct path."""
    t = torch.arange(taps) / RATE
    rt60 = 0.02 + 0.06 * torch.rand(n, 1, generator=gen)
    rooms = 0.15 * torch.randn(n, taps, generator=gen) * torch.exp(-6.9 * t / rt60)
    rooms[:, 0] = 1.0
    return rooms


def reverberate(wave, room):
    taps = room.shape[-1]
    padded = F.pad(wave, (taps - 1, 0))
    return F.conv1d(padded.unsqueeze(1), room.flip(-1).view(1, 1, -1)).squeeze(1)


def add_noise(wave, snr_db):
    noise = torch.randn_like(wave)
    power = wave.pow(2).mean(-1, keepdim=True)
    return wave + noise * (power / 10 ** (snr_db / 10)).sqrt()


class LogMel(nn.Module):
    def __init__(self, n_fft=256, hop=80, bands=40):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        mel = torch.linspace(0, 2595 * math.log10(1 + RATE / 2 / 700), bands + 2)
        hz = 700 * (10 ** (mel / 2595) - 1)
        freqs = torch.linspace(0, RATE / 2, n_fft // 2 + 1)
        up = (freqs[None] - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
        down = (hz[2:, None] - freqs[None]) / (hz[2:] - hz[1:-1])[:, None]
        self.register_buffer("bank", torch.minimum(up, down).clamp(min=0))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        return (self.bank @ spec.abs().pow(2) + 1e-6).log()


class KeywordNet(nn.Module):
    def __init__(self, classes, width=64):
        super().__init__()
        self.features = LogMel()
        layers, cin = [], 40
        for dilation in (1, 2, 4, 8):
            layers += [nn.Conv1d(cin, width, 5, padding=2 * dilation, dilation=dilation),
                       nn.BatchNorm1d(width), nn.ReLU()]
            cin = width
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(width, classes)

    def forward(self, wave):
        return self.out(self.body(self.features(wave)).mean(-1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--taps", type=int, default=256)
    args = ap.parse_args()
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(4)

    clips, labels = make_clips(400, 10, gen)
    rooms = make_rooms(50, args.taps, gen)
    model = KeywordNet(10)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)

    times, loss = [], None
    for step in range(args.steps):
        t0 = time.perf_counter()
        rows = torch.randint(0, len(clips), (args.batch_size,), generator=gen)
        room = rooms[torch.randint(0, len(rooms), (), generator=gen)]
        with torch.no_grad():
            wave = reverberate(clips[rows], room)
            wave = add_noise(wave, 15.0)
        loss = F.cross_entropy(model(wave), labels[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
