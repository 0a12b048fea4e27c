"""Keyword spotting on one second clips: log-mel spectrograms and a small CNN."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SAMPLE_RATE = 16000
KEYWORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]


def hz_to_mel(freq):
    return 2595.0 * np.log10(1.0 + freq / 700.0)


def mel_to_hz(mel):
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


def mel_filterbank(sample_rate, n_fft, n_mels, f_min=20.0, f_max=None):
    """Triangular filters, normalised to unit area (Slaney style)."""
    f_max = f_max or sample_rate / 2
    fft_freqs = np.linspace(0, sample_rate / 2, n_fft // 2 + 1)
    mel_freqs = mel_to_hz(np.linspace(hz_to_mel(f_min), hz_to_mel(f_max), n_mels + 2))
    diff = np.diff(mel_freqs)
    ramps = np.subtract.outer(mel_freqs, fft_freqs)
    weights = np.zeros((n_mels, n_fft // 2 + 1), dtype=np.float32)
    for i in range(n_mels):
        lower = -ramps[i] / diff[i]
        upper = ramps[i + 2] / diff[i + 1]
        weights[i] = np.maximum(0, np.minimum(lower, upper))
    weights *= (2.0 / (mel_freqs[2:] - mel_freqs[:-2]))[:, np.newaxis]
    return torch.from_numpy(weights)


class LogMelSpectrogram(nn.Module):
    def __init__(self, sample_rate=SAMPLE_RATE, n_fft=1024, hop_length=400, n_mels=128):
        super().__init__()
        self.n_fft = n_fft
        self.hop_length = hop_length
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("mel", mel_filterbank(sample_rate, n_fft, n_mels))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop_length, window=self.window,
                          return_complex=True)
        return torch.log(self.mel @ spec.abs().pow(2) + 1e-6)


def synth_clip(label, rng):
    """A gliding harmonic tone whose contour depends on the keyword."""
    t = np.arange(SAMPLE_RATE, dtype=np.float32) / SAMPLE_RATE
    base = 120 + 40 * label + rng.normal(0, 8)
    glide = (label % 3 - 1) * 80 + rng.normal(0, 10)
    phase = 2 * math.pi * (base * t + 0.5 * glide * t * t)
    envelope = np.exp(-((t - rng.uniform(0.35, 0.65)) ** 2) / 0.03)
    wave = envelope * sum(np.sin(k * phase) / k for k in range(1, 5))
    return (wave + rng.normal(0, 0.08, SAMPLE_RATE)).astype(np.float32)


class KeywordDataset(Dataset):
    def __init__(self, n_clips, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(KEYWORDS), n_clips).tolist()
        self.waves = [torch.from_numpy(synth_clip(label, rng)) for label in self.labels]

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, index):
        wave = self.waves[index]
        shift = int(torch.randint(-1600, 1601, (1,)))
        wave = torch.roll(wave, shift)
        transform = LogMelSpectrogram(n_fft=1024, hop_length=400, n_mels=128)
        spec = transform(wave)
        start = int(torch.randint(0, spec.size(1) - 5, (1,)))
        spec[:, start:start + 5] = 0
        return (spec - spec.mean()) / (spec.std() + 1e-5), self.labels[index]


class KeywordCNN(nn.Module):
    def __init__(self, num_classes, width=12):
        super().__init__()
        layers = []
        cin = 1
        for cout in (width, width * 2, width * 4):
            layers += [nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout),
                       nn.ReLU(), nn.MaxPool2d(2)]
            cin = cout
        self.features = nn.Sequential(*layers)
        self.rnn = nn.GRU(cin, 64, batch_first=True)
        self.fc = nn.Linear(64, num_classes)

    def forward(self, spec):
        x = self.features(spec.unsqueeze(1)).mean(dim=2)
        x, _ = self.rnn(x.transpose(1, 2))
        return self.fc(x[:, -1])


def train_epoch(model, loader, optimizer, scheduler, max_steps, losses):
    model.train()
    correct = total = 0
    for specs, labels in loader:
        optimizer.zero_grad()
        logits = model(specs)
        loss = F.cross_entropy(logits, labels, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        correct += (logits.argmax(1) == labels).sum().item()
        total += labels.numel()
        if len(losses) >= max_steps:
            break
    return correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--clips", type=int, default=320)
    args = parser.parse_args()

    torch.manual_seed(3)
    dataset = KeywordDataset(args.clips, seed=3)
    loader = DataLoader(dataset, args.batch_size, shuffle=True, drop_last=True)
    model = KeywordCNN(len(KEYWORDS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr * 3,
                                                    total_steps=args.steps + 1)
    losses = []
    epoch = 0
    while len(losses) < args.steps:
        start = time.time()
        accuracy = train_epoch(model, loader, optimizer, scheduler, args.steps, losses)
        epoch += 1
        print(f"epoch {epoch}: loss {losses[-1]:.3f} accuracy {accuracy:.3f} "
              f"[{time.time() - start:.1f}s]")
    tail = losses[-15:]
    print(f"final loss {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
