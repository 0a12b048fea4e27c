"""Keyword spotting: WAV files -> log-mel features -> convolutions + GRU."""
import argparse
import os
import tempfile
import wave

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

RATE = 8000
NUM_WORDS = 6
N_FFT = 256
HOP = 128
N_MELS = 40


def write_wav(path, samples):
    with wave.open(path, "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(RATE)
        f.writeframes((samples * 32767).astype("<i2").tobytes())


def read_wav(path):
    """Samples in [-1, 1), like soundfile.read(dtype="float32")."""
    with wave.open(path, "rb") as f:
        raw = f.readframes(f.getnframes())
    return (np.frombuffer(raw, dtype="<i2") / 32768.0).astype(np.float32)


def make_clips(root, count=160, seed=5):
    """One-second chirps: each word has its own start and end pitch."""
    rng = np.random.default_rng(seed)
    t = np.arange(RATE) / RATE
    rows = []
    for i in range(count):
        word = int(rng.integers(NUM_WORDS))
        f0, f1 = 200 + 150 * word, 1500 - 120 * word
        pitch = f0 + (f1 - f0) * t + rng.uniform(-40, 40)
        tone = np.sin(2 * np.pi * np.cumsum(pitch) / RATE)
        clip = 0.4 * tone * np.hanning(RATE) + 0.05 * rng.standard_normal(RATE)
        path = os.path.join(root, f"{i:04d}_{word}.wav")
        write_wav(path, clip.clip(-0.99, 0.99))
        rows.append((path, word))
    return rows


def mel_filters():
    def to_mel(f):
        return 2595.0 * np.log10(1.0 + f / 700.0)

    edges = np.linspace(to_mel(20.0), to_mel(RATE / 2), N_MELS + 2)
    edges = 700.0 * (10.0 ** (edges / 2595.0) - 1.0)
    freqs = np.linspace(0, RATE / 2, N_FFT // 2 + 1)
    up = (freqs[:, None] - edges[None, :-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[None, 2:] - freqs[:, None]) / (edges[2:] - edges[1:-1])
    return np.maximum(0.0, np.minimum(up, down))


class LogMel(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(N_FFT))
        self.register_buffer("mel", torch.from_numpy(mel_filters()).float())

    def forward(self, wav):
        spec = torch.stft(wav, N_FFT, HOP, window=self.window, return_complex=True)
        power = spec.abs().pow(2).transpose(1, 2)
        return torch.log(power @ self.mel + 1e-6)


class CRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = LogMel()
        self.norm = nn.BatchNorm1d(N_MELS)
        self.conv = nn.Sequential(
            nn.Conv1d(N_MELS, 128, 5, stride=2, padding=2), nn.BatchNorm1d(128), nn.ReLU(),
            nn.Conv1d(128, 128, 5, stride=2, padding=2), nn.BatchNorm1d(128), nn.ReLU(),
        )
        self.gru = nn.GRU(128, 64, batch_first=True)
        self.head = nn.Linear(64, NUM_WORDS)

    def forward(self, wav):
        x = self.norm(self.features(wav).transpose(1, 2))
        x = self.conv(x).transpose(1, 2)
        x, _ = self.gru(x)
        return self.head(x.mean(dim=1))


def batches(wavs, labels, batch_size, seed=0):
    gen = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(labels), generator=gen)
        for chunk in order.split(batch_size):
            if len(chunk) == batch_size:
                yield wavs[chunk], labels[chunk]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as root:
        rows = make_clips(root)
        wavs = torch.from_numpy(np.stack([read_wav(path) for path, _ in rows]))
    labels = torch.tensor([word for _, word in rows])

    model = CRNN()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    loader = batches(wavs, labels, batch_size=16)
    for _ in range(args.steps):
        x, y = next(loader)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()

    print(f"steps {args.steps} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
