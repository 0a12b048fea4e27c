"""Keyword spotting: log-mel features of one-second clips into a depthwise-separable CNN."""
import argparse
import math
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SAMPLE_RATE = 16000
KEYWORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]
FORMANTS = [(300, 2300), (500, 1000), (700, 1200), (650, 1700), (450, 2000), (600, 1400), (550, 900), (400, 800)]


def say(word, rng, sr=SAMPLE_RATE):
    """A crude spoken word: a pulse train through two gliding formants, with background noise."""
    t = np.arange(sr) / sr
    f1, f2 = FORMANTS[word]
    pitch = rng.uniform(90, 220)
    glide = 1 + 0.15 * np.sin(2 * np.pi * rng.uniform(0.5, 1.5) * t)
    onset, length = rng.uniform(0.1, 0.35), rng.uniform(0.3, 0.5)
    envelope = np.exp(-0.5 * ((t - onset - length / 2) / (length / 3)) ** 2)
    voice = np.sin(2 * np.pi * np.cumsum(f1 * glide) / sr) + 0.6 * np.sin(2 * np.pi * np.cumsum(f2 * glide) / sr)
    voice *= 0.6 + 0.4 * np.sign(np.sin(2 * np.pi * pitch * t))
    wave = voice * envelope * rng.uniform(0.2, 0.6) + rng.normal(0, 0.05, sr)
    return wave.astype(np.float32)


def hz_to_mel(hz):
    return 2595.0 * math.log10(1.0 + hz / 700.0)


def mel_to_hz(mel):
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


def mel_filterbank(n_mels, n_fft, sample_rate, f_min=20.0, f_max=7600.0):
    """Triangular filters, area-normalised, shape (n_mels, n_fft // 2 + 1)."""
    low, high = hz_to_mel(f_min), hz_to_mel(f_max)
    edges = [mel_to_hz(low + (high - low) * i / (n_mels + 1)) for i in range(n_mels + 2)]
    freqs = np.linspace(0, sample_rate / 2, n_fft // 2 + 1)
    bank = np.zeros((n_mels, n_fft // 2 + 1), dtype=np.float32)
    for m in range(n_mels):
        left, centre, right = edges[m:m + 3]
        rising = (freqs - left) / (centre - left)
        falling = (right - freqs) / (right - centre)
        bank[m] = np.maximum(0.0, np.minimum(rising, falling)) * 2.0 / (right - left)
    return torch.from_numpy(bank)


class LogMelSpectrogram(nn.Module):
    def __init__(self, sample_rate=SAMPLE_RATE, n_fft=512, hop_length=160, n_mels=64):
        super().__init__()
        self.n_fft, self.hop_length = n_fft, hop_length
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        self.register_buffer("bank", mel_filterbank(n_mels, n_fft, sample_rate), persistent=False)

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop_length, window=self.window, return_complex=True)
        power = spec.real.square() + spec.imag.square()
        return torch.log(self.bank @ power + 1e-6)


class KeywordDataset(Dataset):
    def __init__(self, n, seed=0, n_mels=64):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(KEYWORDS), n)
        self.waves = torch.from_numpy(np.stack([say(w, rng) for w in self.labels]))
        self.labels = self.labels.tolist()
        self.transform = LogMelSpectrogram(n_mels=n_mels)
        self.rng = np.random.default_rng(seed + 1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        shift = int(self.rng.integers(-1600, 1600))
        wave = torch.roll(self.waves[i], shift)
        mel = self.transform(wave)
        mel = (mel - mel.mean()) / (mel.std() + 1e-5)
        return mel, self.labels[i]


class SeparableConv(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.depth = nn.Conv1d(cin, cin, 9, stride, 4, groups=cin, bias=False)
        self.point = nn.Conv1d(cin, cout, 1, bias=False)
        self.norm = nn.BatchNorm1d(cout)

    def forward(self, x):
        return F.relu(self.norm(self.point(self.depth(x))), inplace=True)


class KeywordNet(nn.Module):
    def __init__(self, n_mels, n_classes, width=128):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(n_mels, width, 5, 1, 2, bias=False), nn.BatchNorm1d(width), nn.ReLU(inplace=True))
        self.body = nn.Sequential(SeparableConv(width, width, 2), SeparableConv(width, width),
                                  SeparableConv(width, width), SeparableConv(width, width))
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(width, n_classes))

    def forward(self, mel):
        return self.head(self.body(self.stem(mel)).mean(-1))


def spec_augment(mel, generator, max_bins=10, max_frames=20):
    """Mask one band of mel bins and one stretch of frames, the same for the whole batch."""
    f = int(torch.randint(0, mel.size(1) - max_bins, (1,), generator=generator))
    t = int(torch.randint(0, mel.size(2) - max_frames, (1,), generator=generator))
    mel[:, f:f + max_bins] = 0
    mel[:, :, t:t + max_frames] = 0
    return mel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--n-mels", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)

    loader = DataLoader(KeywordDataset(1024, n_mels=args.n_mels), batch_size=args.batch_size, shuffle=True,
                        drop_last=True, generator=generator)
    model = KeywordNet(args.n_mels, len(KEYWORDS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2, fused=True)

    step, times, losses = 0, [], []
    while step < args.steps:
        model.train()
        tick = time.perf_counter()
        for mel, label in loader:
            mel = spec_augment(mel, generator)
            loss = F.cross_entropy(model(mel), label)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            now = time.perf_counter()
            times.append(now - tick)
            tick = now
            step += 1
            if step >= args.steps:
                break

    print(f"loss {torch.stack(losses[-10:]).mean().item():.4f}")
    print(f"step {1000 * statistics.median(times[5:]):.2f} ms")


if __name__ == "__main__":
    main()
