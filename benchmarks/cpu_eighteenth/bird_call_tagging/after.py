"""Bird-call tagging: a small CNN over log-mel patches of field recordings.

The recordings come from several recorder models with different sample rates;
the front end brings everything to 16 kHz mono before the mel transform.
"""
import argparse
import functools
import math
import time

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SPECIES = ["wren", "robin", "chaffinch", "blackcap", "chiffchaff", "dunnock", "siskin", "goldcrest"]
SOURCE_RATES = [22050, 44100, 48000]
TARGET_RATE = 16000


# ----------------------------------------------------------------- signal ops
@functools.lru_cache(maxsize=None)
def sinc_kernel(orig, new, width=24, rolloff=0.95, beta=14.77):
    base = min(orig, new) * rolloff
    half = math.ceil(width * orig / base)
    idx = torch.arange(-half, half + orig, dtype=torch.float64)[None, None] / orig
    t = torch.arange(0, -new, -1, dtype=torch.float64)[:, None, None] / new + idx
    t = (t * base).clamp(-width, width)
    window = torch.i0(beta * torch.sqrt(1 - (t / width) ** 2)) / torch.i0(torch.tensor(beta, dtype=torch.float64))
    t = t * math.pi
    kernel = torch.where(t == 0, torch.ones_like(t), torch.sin(t) / t)
    return (kernel * window * (base / orig)).float(), half


def resample(wave, orig_rate, new_rate):
    """Band-limited resampling, polyphase (as in the common audio packages)."""
    if orig_rate == new_rate:
        return wave
    g = math.gcd(orig_rate, new_rate)
    orig, new = orig_rate // g, new_rate // g
    kernel, half = sinc_kernel(orig, new)
    n = wave.shape[-1]
    padded = F.pad(wave[None, None], (half, half + orig))
    out = F.conv1d(padded, kernel, stride=orig)
    out = out.transpose(1, 2).reshape(-1)
    return out[: math.ceil(new * n / orig)]


def mel_filterbank(n_freqs, n_mels, rate, fmin=150.0):
    def to_mel(f):
        return 2595.0 * math.log10(1.0 + f / 700.0)

    freqs = torch.linspace(0, rate / 2, n_freqs)
    mels = torch.linspace(to_mel(fmin), to_mel(rate / 2), n_mels + 2)
    edges = 700.0 * (10 ** (mels / 2595.0) - 1.0)
    diff = edges[1:] - edges[:-1]
    slopes = edges[None] - freqs[:, None]
    down = -slopes[:, :-2] / diff[:-1]
    up = slopes[:, 2:] / diff[1:]
    return torch.clamp(torch.minimum(down, up), min=0)


class LogMel(nn.Module):
    def __init__(self, n_fft=512, hop=200, n_mels=48, rate=TARGET_RATE):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        self.register_buffer("fb", mel_filterbank(n_fft // 2 + 1, n_mels, rate), persistent=False)

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True).abs().pow(2)
        return torch.log(self.fb.T @ spec + 1e-5)


# ----------------------------------------------------------------- data
def synth_call(species, rate, seconds, rng):
    t = np.arange(int(rate * seconds)) / rate
    f0 = 1500 + 650 * species
    trill = 5 + 2 * species
    phase = 2 * np.pi * (f0 * t + 60 * np.sin(2 * np.pi * trill * t) / trill)
    gate = (np.sin(2 * np.pi * (0.7 + 0.2 * species) * t + rng.uniform(0, 6)) > 0).astype(np.float32)
    wave = 0.25 * gate * np.sin(phase) + 0.12 * rng.standard_normal(t.size)
    return wave.astype(np.float32)


class Recordings(Dataset):
    def __init__(self, n, seconds, seed, train=True):
        rng = np.random.default_rng(seed)
        self.train = train
        self.clip = int(seconds * TARGET_RATE)
        self.items = []
        for i in range(n):
            y = int(rng.integers(len(SPECIES)))
            rate = int(rng.choice(SOURCE_RATES))
            self.items.append((torch.from_numpy(synth_call(y, rate, seconds, rng)), rate, y))
        self.logmel = LogMel()

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        wave, rate, y = self.items[i]
        wave = resample(wave, rate, TARGET_RATE)
        wave = F.pad(wave, (0, max(0, self.clip - wave.numel())))[: self.clip]
        wave = wave - wave.mean()
        if self.train:
            wave = torch.roll(wave, int(torch.randint(0, self.clip, ()))) * float(torch.empty(()).uniform_(0.7, 1.3))
        feats = self.logmel(wave)
        if self.train:
            f = int(torch.randint(0, feats.shape[0] - 6, ()))
            feats[f:f + 6] = feats.mean()
        return feats[None], y


# ----------------------------------------------------------------- model
class ConvTagger(nn.Module):
    def __init__(self, width=12, n_classes=len(SPECIES)):
        super().__init__()
        chans = [1, width, 2 * width, 4 * width]
        layers = []
        for cin, cout in zip(chans, chans[1:]):
            layers += [nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2)]
        self.features = nn.Sequential(*layers)
        self.att = nn.Conv1d(chans[-1], n_classes, 1)
        self.cla = nn.Conv1d(chans[-1], n_classes, 1)

    def forward(self, x):
        h = self.features(x).mean(dim=2)
        return (self.att(h).softmax(dim=2) * self.cla(h)).sum(dim=2)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = total = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    model.train()
    return right / total


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--clips", type=int, default=192)
    p.add_argument("--seconds", type=float, default=2.0)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=3)
    args = p.parse_args()
    torch.manual_seed(args.seed)

    train = DataLoader(Recordings(args.clips, args.seconds, args.seed), batch_size=args.batch, shuffle=True)
    valid = DataLoader(Recordings(32, args.seconds, args.seed + 1, train=False), batch_size=args.batch)
    model = ConvTagger()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * len(train))
    print(f"{len(train.dataset)} clips of {args.seconds}s, {len(train)} batches per epoch")

    for epoch in range(args.epochs):
        start, total, seen = time.time(), 0.0, 0
        for x, y in train:
            loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(y)
            seen += len(y)
        line = f"epoch {epoch}: loss {total / seen:.4f}  {(time.time() - start) / len(train) * 1e3:.0f} ms/batch"
        if epoch % 2 == 1:
            line += f"  valid acc {evaluate(model, valid):.3f}"
        print(line)


if __name__ == "__main__":
    main()
