"""Keyword spotting: log-mel features and a small convolutional recurrent network."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SAMPLE_RATE = 16000
KEYWORDS = 8


class Keywords(Dataset):
    """Every keyword is a chirp with its own start and end pitch, plus noise."""

    def __init__(self, count, seconds=1.0, seed=0):
        gen = torch.Generator().manual_seed(seed)
        n = int(SAMPLE_RATE * seconds)
        t = torch.arange(n) / SAMPLE_RATE
        self.labels = torch.randint(KEYWORDS, (count,), generator=gen)
        self.waves = torch.empty(count, n)
        for i, label in enumerate(self.labels.tolist()):
            start, end = 200 + 150 * label, 1800 - 120 * label
            phase = 2 * math.pi * (start * t + 0.5 * (end - start) * t * t)
            self.waves[i] = torch.sin(phase) + 0.7 * torch.randn(n, generator=gen)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.waves[i], self.labels[i]


def hz_to_mel(hz):
    return 2595.0 * math.log10(1.0 + hz / 700.0)


def mel_to_hz(mel):
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


def mel_filterbank(n_mels, n_fft, sample_rate):
    """Triangular filters, n_mels x (n_fft // 2 + 1)."""
    low, high = hz_to_mel(20.0), hz_to_mel(sample_rate / 2)
    mels = [low + (high - low) * i / (n_mels + 1) for i in range(n_mels + 2)]
    bins = [(n_fft + 1) * mel_to_hz(m) / sample_rate for m in mels]
    bank = torch.zeros(n_mels, n_fft // 2 + 1)
    for m in range(1, n_mels + 1):
        left, centre, right = bins[m - 1], bins[m], bins[m + 1]
        for k in range(math.ceil(left), min(math.floor(right), n_fft // 2) + 1):
            if k <= centre:
                bank[m - 1, k] = (k - left) / (centre - left)
            else:
                bank[m - 1, k] = (right - k) / (right - centre)
    return bank


class LogMel(nn.Module):
    def __init__(self, n_fft=1024, hop=256, n_mels=64):
        super().__init__()
        self.n_fft = n_fft
        self.hop = hop
        self.n_mels = n_mels

    def forward(self, wave):
        window = torch.hann_window(self.n_fft)
        spec = torch.stft(wave, self.n_fft, self.hop, window=window, return_complex=True)
        power = spec.abs().pow(2)
        bank = mel_filterbank(self.n_mels, self.n_fft, SAMPLE_RATE)
        mel = torch.matmul(bank, power)
        return torch.log(mel + 1e-6)


class SpecAugment(nn.Module):
    """Blanks out a random band of mel channels and a random stretch of frames."""

    def __init__(self, band=8, stretch=10):
        super().__init__()
        self.band = band
        self.stretch = stretch

    def forward(self, x):
        if not self.training:
            return x
        x = x.clone()
        f = torch.randint(x.shape[1] - self.band, (1,)).item()
        t = torch.randint(x.shape[2] - self.stretch, (1,)).item()
        x[:, f:f + self.band] = 0
        x[:, :, t:t + self.stretch] = 0
        return x


class KeywordNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = LogMel()
        self.augment = SpecAugment()
        self.norm = nn.BatchNorm1d(64)
        self.conv = nn.Sequential(
            nn.Conv1d(64, 96, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(96, 96, 5, stride=2, padding=2), nn.ReLU(),
        )
        self.gru = nn.GRU(96, 64, batch_first=True)
        self.fc = nn.Linear(64, KEYWORDS)

    def forward(self, wave):
        x = self.augment(self.norm(self.features(wave)))
        x = self.conv(x).transpose(1, 2)
        _, h = self.gru(x)
        return self.fc(h[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(Keywords(512), batch_size=32, shuffle=True, drop_last=True)
    model = KeywordNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    model.train()
    step, correct, seen = 0, 0, 0
    while step < args.steps:
        for wave, label in loader:
            logits = model(wave)
            loss = F.cross_entropy(logits, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += (logits.argmax(1) == label).sum().item()
            seen += len(label)
            step += 1
            if step == args.steps:
                break
    print(f"loss {loss.item():.4f}, training accuracy {correct / seen:.4f}")


if __name__ == "__main__":
    main()
