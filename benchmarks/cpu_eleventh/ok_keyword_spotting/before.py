"""Keyword spotting: a small CNN on log-mel features of one-second clips."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

RATE = 8000
N_FFT, HOP, N_MELS = 256, 80, 40
KEYWORDS = 10


def mel_filterbank(n_mels=N_MELS, n_fft=N_FFT, rate=RATE):
    def to_mel(f):
        return 2595.0 * math.log10(1.0 + f / 700.0)

    mels = torch.linspace(to_mel(60.0), to_mel(rate / 2), n_mels + 2)
    edges = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    freqs = torch.linspace(0, rate / 2, n_fft // 2 + 1)
    rise = (freqs[:, None] - edges[None, :-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[None, 2:] - freqs[:, None]) / (edges[2:] - edges[1:-1])
    return torch.minimum(rise, fall).clamp(min=0.0)


def synth_clips(n, g):
    """Two gliding tones per keyword, with random onset and pitch."""
    labels = torch.randint(0, KEYWORDS, (n,), generator=g)
    t = torch.arange(RATE) / RATE
    start = 300.0 + 150.0 * labels.float() + 30.0 * torch.randn(n, generator=g)
    slope = torch.where(labels % 2 == 0, 400.0, -150.0)
    onset = 0.1 + 0.3 * torch.rand(n, generator=g)
    local = (t[None] - onset[:, None]).clamp(min=0.0)
    phase = 2 * math.pi * (start[:, None] * local + 0.5 * slope[:, None] * local ** 2)
    envelope = torch.exp(-((local - 0.25) / 0.15) ** 2) * (local > 0)
    wave = envelope * (torch.sin(phase) + 0.4 * torch.sin(2.1 * phase))
    return wave + 0.3 * torch.randn(n, RATE, generator=g), labels


def log_mel(waves, fbank):
    window = torch.hann_window(N_FFT)
    spec = torch.stft(waves, N_FFT, HOP, window=window, return_complex=True)
    power = spec.real.square() + spec.imag.square()
    return torch.log(power.transpose(1, 2) @ fbank + 1e-4).transpose(1, 2)


def build_features(n=960, seed=19, chunk=120):
    g = torch.Generator().manual_seed(seed)
    fbank = mel_filterbank()
    features, labels = [], []
    for _ in range(n // chunk):
        waves, y = synth_clips(chunk, g)
        features.append(log_mel(waves, fbank))
        labels.append(y)
    features = torch.cat(features).unsqueeze(1)
    features = (features - features.mean()) / features.std()
    return features, torch.cat(labels)


class KeywordNet(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        layers, cin = [], 1
        for cout, stride in ((width, 2), (width, 1), (2 * width, 2), (2 * width, 1)):
            layers += [
                nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
                nn.BatchNorm2d(cout),
                nn.ReLU(inplace=True),
            ]
            cin = cout
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(cin, KEYWORDS)

    def forward(self, x):
        return self.head(self.body(x).mean(dim=(2, 3)))


def batches(n, size, g):
    while True:
        for idx in torch.randperm(n, generator=g).split(size):
            if len(idx) == size:
                yield idx


def train(model, features, labels, steps, batch_size=24):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    order = batches(len(labels), batch_size, torch.Generator().manual_seed(2))
    model.train()
    losses = []
    for _ in range(steps):
        idx = next(order)
        loss = F.cross_entropy(model(features[idx]), labels[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    features, labels = build_features()
    features = features.contiguous(memory_format=torch.channels_last)
    model = KeywordNet().to(memory_format=torch.channels_last)
    losses = train(model, features, labels, args.steps)
    tail = losses[-10:]
    print(f"mean loss of the last {len(tail)} steps: {sum(tail) / len(tail):.3f}")


if __name__ == "__main__":
    main()
