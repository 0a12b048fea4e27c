"""Keyword spotting: log-mel features and a small depthwise-separable CNN."""
import argparse
import os
import tempfile
import wave

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

RATE = 8000
WORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]


def write_clips(root, n=240, seed=21):
    """One-second 16-bit mono clips; each word is a pair of gliding tones in noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(RATE) / RATE
    rows = []
    for i in range(n):
        word = int(rng.integers(len(WORDS)))
        f0 = 220 + 90 * word + rng.normal(0, 8)
        glide = (1 if word % 2 else -1) * 120
        tone = np.sin(2 * np.pi * (f0 * t + glide * t * t)) + 0.5 * np.sin(2 * np.pi * 3 * f0 * t)
        envelope = np.exp(-((t - rng.uniform(0.35, 0.65)) ** 2) / 0.03)
        signal = 0.3 * tone * envelope + 0.08 * rng.standard_normal(RATE)
        name = f"{WORDS[word]}_{i:04d}.wav"
        with wave.open(os.path.join(root, name), "wb") as f:
            f.setnchannels(1)
            f.setsampwidth(2)
            f.setframerate(RATE)
            f.writeframes((np.clip(signal, -1, 1) * 32767).astype("<i2").tobytes())
        rows.append((name, word))
    return rows


def read_wav(path):
    with wave.open(path, "rb") as f:
        pcm = np.frombuffer(f.readframes(f.getnframes()), dtype="<i2")
    return pcm / 32768.0


def mel_filters(n_mels, n_fft):
    def to_mel(hz):
        return 2595 * np.log10(1 + hz / 700)

    edges = 700 * (10 ** (np.linspace(to_mel(40), to_mel(RATE / 2), n_mels + 2) / 2595) - 1)
    freqs = np.linspace(0, RATE / 2, n_fft // 2 + 1)
    lower = (freqs - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    upper = (edges[2:, None] - freqs) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(lower, upper))


class LogMel(nn.Module):
    def __init__(self, n_fft=256, hop=80, n_mels=40):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("filters", torch.from_numpy(mel_filters(n_mels, n_fft)).float())

    def forward(self, waves):
        spec = torch.stft(waves, self.n_fft, self.hop, window=self.window, return_complex=True)
        power = spec.real.square() + spec.imag.square()
        return torch.log(self.filters @ power + 1e-6)


class SeparableBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depth = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.point = nn.Conv2d(channels, channels, 1, bias=False)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x):
        return x + F.relu(self.bn(self.point(self.depth(x))))


class KeywordNet(nn.Module):
    def __init__(self, channels=48, n_blocks=3):
        super().__init__()
        self.features = LogMel()
        self.norm = nn.BatchNorm2d(1)
        self.stem = nn.Conv2d(1, channels, (5, 5), stride=(2, 2), padding=2)
        self.blocks = nn.Sequential(*[SeparableBlock(channels) for _ in range(n_blocks)])
        self.head = nn.Linear(channels, len(WORDS))

    def forward(self, waves):
        x = self.norm(self.features(waves).unsqueeze(1))
        x = self.blocks(F.relu(self.stem(x)))
        return self.head(x.mean(dim=(2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(0)

    with tempfile.TemporaryDirectory() as root:
        rows = write_clips(root)
        clips = np.stack([read_wav(os.path.join(root, name)) for name, _ in rows])
    clips = torch.from_numpy(clips).float()
    labels = torch.tensor([word for _, word in rows])

    model = KeywordNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    g = torch.Generator().manual_seed(1)

    total = 0.0
    for step in range(args.steps):
        pick = torch.randint(len(labels), (args.batch_size,), generator=g)
        loss = F.cross_entropy(model(clips[pick]), labels[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()

    print(f"mean loss over {args.steps} steps: {total / args.steps:.3f}")


if __name__ == "__main__":
    main()
