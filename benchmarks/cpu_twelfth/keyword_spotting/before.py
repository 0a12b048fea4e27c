"""Keyword spotting on one-second clips: log-mel front end and a small 2-D CNN."""
import argparse
import math
import tempfile
import wave
from pathlib import Path

import numpy as np
import torch
from torch import nn

SAMPLE_RATE = 16000
WORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]
CLIPS_PER_WORD = 24


def write_corpus(root: Path, seed: int = 7) -> None:
    """Each word is a pair of formant-like chirps in noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    for w, word in enumerate(WORDS):
        (root / word).mkdir()
        for i in range(CLIPS_PER_WORD):
            f0 = 200 + 90 * w + rng.normal(0, 15)
            f1 = 1200 + 170 * ((w * 3) % 8) + rng.normal(0, 40)
            env = np.exp(-((t - rng.uniform(0.35, 0.65)) ** 2) / 0.02)
            x = env * (np.sin(2 * math.pi * f0 * t) + 0.6 * np.sin(2 * math.pi * f1 * t * (1 + 0.1 * t)))
            x = 0.3 * x + 0.05 * rng.normal(size=t.shape)
            pcm = (np.clip(x, -1, 1) * 32767).astype("<i2")
            with wave.open(str(root / word / f"{i:03d}.wav"), "wb") as f:
                f.setnchannels(1)
                f.setsampwidth(2)
                f.setframerate(SAMPLE_RATE)
                f.writeframes(pcm.tobytes())


def read_wav(path: Path) -> np.ndarray:
    with wave.open(str(path), "rb") as f:
        pcm = np.frombuffer(f.readframes(f.getnframes()), dtype="<i2")
    return pcm / 32768.0


def load_corpus(root: Path):
    clips, labels = [], []
    for w, word in enumerate(WORDS):
        for path in sorted((root / word).glob("*.wav")):
            clips.append(read_wav(path))
            labels.append(w)
    return torch.from_numpy(np.stack(clips)), torch.tensor(labels)


def mel_filters(n_fft: int, n_mels: int, fmin=40.0, fmax=7600.0) -> torch.Tensor:
    def to_mel(f):
        return 2595.0 * np.log10(1.0 + f / 700.0)

    mel_pts = np.linspace(to_mel(fmin), to_mel(fmax), n_mels + 2)
    hz = 700.0 * (10 ** (mel_pts / 2595.0) - 1.0)
    bins = np.linspace(0, SAMPLE_RATE / 2, n_fft // 2 + 1)
    up = (bins[None] - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    down = (hz[2:, None] - bins[None]) / (hz[2:] - hz[1:-1])[:, None]
    return torch.from_numpy(np.maximum(0, np.minimum(up, down))).float()


class LogMel(nn.Module):
    def __init__(self, n_fft=512, hop=160, n_mels=40):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("fbank", mel_filters(n_fft, n_mels))

    def forward(self, wav):
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True)
        mel = self.fbank @ (spec.real.square() + spec.imag.square())
        return torch.log(mel + 1e-6).unsqueeze(1)


class KeywordNet(nn.Module):
    def __init__(self, n_words: int, ch: int = 24):
        super().__init__()
        self.frontend = LogMel()
        self.norm = nn.BatchNorm2d(1)

        def block(cin, cout):
            return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout),
                                 nn.ReLU(inplace=True), nn.MaxPool2d(2))

        self.body = nn.Sequential(block(1, ch), block(ch, 2 * ch), block(2 * ch, 2 * ch))
        self.head = nn.Linear(2 * ch, n_words)

    def forward(self, wav):
        x = self.norm(self.frontend(wav))
        return self.head(self.body(x).mean(dim=(2, 3)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch-size", type=int, default=16)
    args = ap.parse_args()

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        write_corpus(Path(tmp))
        wavs, labels = load_corpus(Path(tmp))

    model = KeywordNet(len(WORDS)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    criterion = nn.CrossEntropyLoss()

    generator = torch.Generator().manual_seed(1)
    order, pos, total = torch.randperm(len(wavs), generator=generator), 0, 0.0
    for step in range(args.steps):
        if pos + args.batch_size > len(order):
            order, pos = torch.randperm(len(wavs), generator=generator), 0
        idx = order[pos:pos + args.batch_size]
        pos += args.batch_size

        loss = criterion(model(wavs[idx]), labels[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"mean training loss over {args.steps} steps: {total / max(args.steps, 1):.3f}")


if __name__ == "__main__":
    main()
